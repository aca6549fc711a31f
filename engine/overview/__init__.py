"""What log dirs contain, and what uses their space, from few reads; groups and transactions, from records."""
