"""What log dirs contain, and what uses their space: from names, sizes, headers and indexes; no record is decoded."""
