"""What people see. Each page asks the REST interface, as the person who looks at it, and nothing else."""
