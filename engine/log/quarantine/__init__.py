"""What is cut is kept: a seam that copies aside, its manifest, the way back."""
