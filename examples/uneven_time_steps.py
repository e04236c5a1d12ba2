"""An exponential average over uneven time steps: 44 years of weekly CO2 with gaps of up to 19 weeks.

The average forgets at the rate 1/tau, so a step of dt keeps a = exp(-dt / tau) of the past. The coefficients of this
recurrence change with time. scipy.signal.lfilter can't run it, because its coefficients are constant.
"""

import numpy as np

import recfact as rf
from recfact import data

record = data.load_co2()
year = 365.25 * 86400.0
a, u = data.exponential_average(record.dt, record.value, tau=year)
average = rf.solve(a, u)

gap = int(np.argmax(record.dt[1:])) + 1
days = record.dt[gap] / 86400
print(f"the longest gap, {days:.0f} days up to {record.time[gap]}, keeps {a[gap]:.2f} of the average before it")
print(f"a week keeps {np.exp(-7 * 86400 / year):.2f}\n")

print("average over the past year")
for first in range(1960, 2001, 10):
    here = int(np.searchsorted(record.time, np.datetime64(f"{first}-01-01")))
    print(f"{record.time[here]}  {average[here]:.1f} {record.unit}")
