"""What windows leave out, bounded with proof, and the choice of a window."""
