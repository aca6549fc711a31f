"""What a kill, a power cut or a failing disk may do to each operation, at every single file operation of it."""
