/* Properties of this machine for files that are valid on it alone, its memory use, and temporary
 * folders. */
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
/* The peak of this process's resident memory in bytes since _forget_peak_memory(); 0: unknown. If
 * the system cannot reset it, the peak since the process began. */
int64_t tt_machine_peak_memory(void);
void tt_machine_forget_peak_memory(void);
/* What is resident now, in bytes, and the part of it that is no file's (code, mapped weights); 0:
 * unknown. */
int64_t tt_machine_resident_memory(void);
int64_t tt_machine_private_memory(void);
/* Creates an empty folder below $TMPDIR, else /tmp. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_machine_scratch(char *out_path, size_t capacity, struct tt_error *why);
/* Removes the folder and its contents; files that cannot be removed stay. */
void tt_machine_remove(const char *folder);

#endif
