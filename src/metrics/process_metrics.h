/* What the metrics page says of the process: read from the kernel at each call. Any thread.
 *
 * Implemented in process_metrics.c. */
#ifndef TT_METRICS_PROCESS_METRICS_H
#define TT_METRICS_PROCESS_METRICS_H

#include <stdint.h>

/* User and system time. */
int64_t tt_process_cpu_ns(void);
/* The start of the process, since the epoch, to a hundredth of a second. 0: unknown. */
int64_t tt_process_started_ns(void);
/* 0: unknown. */
int64_t tt_process_resident_bytes(void);
int64_t tt_process_virtual_bytes(void);
int64_t tt_process_open_files(void);
int64_t tt_process_max_files(void);

#endif
