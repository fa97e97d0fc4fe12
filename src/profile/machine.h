/* What this machine is called in files that hold for it alone, and folders that are thrown away. */
#ifndef TT_PROFILE_MACHINE_H
#define TT_PROFILE_MACHINE_H

#include "base/err.h"

#include <stdint.h>

/* "AMD EPYC 9B14"; returns `out`. */
char *tt_machine_processor(char *out, size_t capacity);
/* "AMD EPYC 9B14, one thread": the device that profiles are measured on; returns `out`. */
char *tt_machine_device(char *out, size_t capacity);
/* "2026-01-31", today in UTC; returns `out`. */
char *tt_machine_date(char *out, size_t capacity);
/* The most that this process had resident since it was told to forget, in bytes; 0 where the system
 * does not say. Where it cannot be forgotten, since the process began. */
int64_t tt_machine_peak_memory(void);
void tt_machine_forget_peak_memory(void);
/* A fresh folder below $TMPDIR, else /tmp. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_machine_scratch(char *out_path, size_t capacity, struct tt_error *why);
/* The folder with all that is in it; what cannot be removed stays. */
void tt_machine_remove(const char *folder);

#endif
