"""How far back a recurrence looks: in exact and in rounded arithmetic, and with given coefficients."""
