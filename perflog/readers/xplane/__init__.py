"""Profiles of XLA: XSpace files (`*.xplane.pb`), as JAX and TensorFlow write them."""
