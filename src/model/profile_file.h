/* Profiles on disk (proto/profile.proto in text form): what `tutti profile` writes and everyone
 * reads. */
#ifndef TT_MODEL_PROFILE_FILE_H
#define TT_MODEL_PROFILE_FILE_H

#include "base/text.h"
#include "core/profile.h"

/* Reads `path` into a profile for batches up to `max_batch` (0: what the file says). Errors:
 * NOT_FOUND, IO, INVALID with file:line or the point that is wrong, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_profile_file_read(const char *path, int32_t max_batch,
                                               struct tt_profile **out_profile,
                                               struct tt_message *why);

struct tt_profile_file_point {
    int32_t batch, length, runs;
    int64_t latency_ns, low_ns, high_ns;
};

struct tt_profile_file_origin {
    const char *source; /* "measured by tutti 0.1.0" */
    const char *device;
    const char *date; /* "2026-01-31" */
    int32_t max_batch;
};

/* Appends the file's text; the spread stands beside each point as a comment. */
void tt_profile_file_print(const struct tt_profile_file_origin *origin,
                           const struct tt_profile_file_point *points, int32_t count,
                           struct tt_text *out_text);

#endif
