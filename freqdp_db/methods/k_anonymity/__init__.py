"""Methods that make k objects alike: `glove`, `klt`; and `w4m`, which brings them close."""
