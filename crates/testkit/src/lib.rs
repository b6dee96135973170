//! Reference models and generators for the tests of foretell: slow, short and obviously right.
