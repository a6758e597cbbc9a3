"""Tools of the book: its pages as one list, a plain preview, the student's handout, the reference pages."""
