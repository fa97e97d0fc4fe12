/* How long a thread runs before another one that wants its processor gets it.
 *
 * A thread that reacts to events and sleeps in between asks for a short slice: when it wakes while
 * a thread with a longer slice runs, it gets the processor at once, instead of after the rest of
 * that slice (1.4 ms and more). Its share of the processor stays the same. Threads that it creates
 * inherit the slice. Needs Linux 6.12; before, and where the system does not allow it, nothing
 * happens. Implemented in time_slice.c. */
#ifndef TT_BASE_THREADS_TIME_SLICE_H
#define TT_BASE_THREADS_TIME_SLICE_H

/* Of the calling thread. 100 us, the shortest that there is. */
void tt_time_slice_be_short(void);
/* The system's own, for a thread that inherited another one. */
void tt_time_slice_be_usual(void);

#endif
