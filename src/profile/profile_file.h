/* Profiles on disk (proto/profile.proto in text form): what `tutti profile` writes and everyone
 * reads. */
#ifndef TT_PROFILE_PROFILE_FILE_H
#define TT_PROFILE_PROFILE_FILE_H

#include "base/text.h"
#include "core/profile.h"
#include "profile.pb-c.h"

struct tt_profile_file {
    Tutti__Profile *message;
    struct tt_profile *whole;
    int32_t step_count; /* 0 where the file has none */
    struct tt_profile **steps;
};

/* Reads `path` into profiles for batches up to `max_batch` (0: what the file says). Errors:
 * NOT_FOUND, IO, INVALID with file:line or the point that is wrong, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_profile_file_open(const char *path, int32_t max_batch,
                                               struct tt_profile_file **out_file,
                                               struct tt_error *why);
void tt_profile_file_close(struct tt_profile_file *take_file);

/* What a profile is measured of; it is stale for anything else. */
struct tt_profile_subject {
    const char *model_sha256;
    const char *device;
    const char *stages; /* "" where the model is whole */
};

/* Was the file measured of another subject? Then a sentence says so, and INVALID is returned. A
 * file without model_sha256 (written by hand, from a paper) is right for all. */
TT_MUST_CHECK enum tt_err tt_profile_file_check(const Tutti__Profile *message,
                                                const struct tt_profile_subject *subject,
                                                struct tt_error *why);

struct tt_profile_file_point {
    int32_t step; /* -1: the whole */
    int32_t batch, length, runs;
    int64_t latency_ns, low_ns, high_ns;
};

struct tt_profile_file_origin {
    const char *source; /* "measured by tutti 0.1.0" */
    const char *device;
    const char *date; /* "2026-01-31" */
    int32_t max_batch;
    const char *model_sha256;      /* NULL: none */
    const char *stages;            /* NULL: whole */
    int32_t step_count;            /* of the points' steps; 0: none */
    const char *const *step_names; /* [step_count] */
};

/* D6: the smallest batch whose time per row is within a tenth of the best one's, among the step's
 * points at its first length; 0 where there is no point. */
int32_t tt_profile_file_preferred(const struct tt_profile_file_point *points, int32_t count,
                                  int32_t step);

/* Appends the file's text. */
void tt_profile_file_print(const struct tt_profile_file_origin *origin,
                           const struct tt_profile_file_point *points, int32_t count,
                           struct tt_text *out_text);

#endif
