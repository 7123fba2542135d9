"""What runs inside of other programs: engines, middleware, hooks and filters."""
