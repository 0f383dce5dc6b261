"""Facts for the reader of an overview, in sentences with figures: of steps, devices, cases, ranks, jobs, versions."""
