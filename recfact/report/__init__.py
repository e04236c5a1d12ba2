"""What people look at: files in, a summary, tables, figures and one self-contained page out."""
