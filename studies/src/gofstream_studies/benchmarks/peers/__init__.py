"""Other tests at the same task: the same reference and toys, power and time beside ours."""
