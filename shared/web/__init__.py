"""HTTP as every surface of Ulak speaks it: problems, bodies within limits, rates, routes and their document."""
