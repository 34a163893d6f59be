"""What is released: wheel and sdist, installed into empty environments (`make test-dist`)."""
