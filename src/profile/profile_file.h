/* Profiles on disk (proto/profile.proto in text form): the one reader and the one writer of
 * profile.pbtxt. `tutti profile` writes such files; the server and experiments read them.
 *
 * Life: _open reads and converts; the caller may take `whole` and `steps` out and set them to NULL;
 * _close frees the rest. */
#ifndef TT_PROFILE_PROFILE_FILE_H
#define TT_PROFILE_PROFILE_FILE_H

#include "base/text.h"
#include "profile.pb-c.h"
#include "profile/profile_builder.h"

struct tt_profile_file {
    Tutti__Profile *message;
    struct tt_profile *whole;
    int32_t step_count; /* 0: the file has no steps */
    struct tt_profile **steps;
};

/* The profile that `message` describes by a line or by points, steps left out, for batches up to
 * `max_batch` (0: what the message says, else its largest batch, else 512). INVALID, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_profile_file_whole(const Tutti__Profile *message, int32_t max_batch,
                                                struct tt_profile **out_profile,
                                                struct tt_error *why);
/* Reads `path` into profiles for batches up to `max_batch` (0: as above). Errors: NOT_FOUND, IO,
 * INVALID with file:line or the point that is wrong, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_profile_file_open(const char *path, int32_t max_batch,
                                               struct tt_profile_file **out_file,
                                               struct tt_error *why);
void tt_profile_file_close(struct tt_profile_file *take_file);
/* Only the memory that the file states; 0: it does not. Errors: as _open. */
TT_MUST_CHECK enum tt_err tt_profile_file_memory(const char *path, int64_t *out_static_bytes,
                                                 int64_t *out_dynamic_bytes, struct tt_error *why);
/* True if the file's demands were measured with another number of processors than `processors`. */
bool tt_profile_file_demand_is_elsewhere(const struct tt_profile_file *self, int32_t processors);
/* Every batch needs the whole device, as if no demand had been measured. */
void tt_profile_file_forget_demand(struct tt_profile_file *self);

/* What a profile was measured of. It is stale for anything else. */
struct tt_profile_subject {
    const char *model_sha256;
    const char *device; /* NULL: any */
    const char *stages; /* "": the model is whole */
};

/* INVALID, with the difference, if the file was measured of another subject. A file without
 * model_sha256 (written by hand, from a paper) is valid for
 * every subject. */
TT_MUST_CHECK enum tt_err tt_profile_file_check(const Tutti__Profile *message,
                                                const struct tt_profile_subject *subject,
                                                struct tt_error *why);
/* The comparison of model file and device alone, for other files of measurements. Errors: the
 * same. */
TT_MUST_CHECK enum tt_err tt_profile_file_check_origin(const char *model_sha256, const char *device,
                                                       const char *wanted_sha256,
                                                       const char *wanted_device,
                                                       struct tt_error *why);

struct tt_profile_file_origin {
    const char *source; /* "measured by tutti 0.1.0" */
    const char *device;
    const char *date; /* "2026-01-31" */
    int32_t max_batch;
    const char *model_sha256;      /* NULL: none */
    const char *stages;            /* NULL: whole */
    int32_t step_count;            /* of the points' steps; 0: none */
    const char *const *step_names; /* [step_count] */
    int32_t processors, executors; /* demands were measured with these; executors < 2: were not */
    int64_t static_bytes, dynamic_bytes; /* 0: not known */
};

/* D6: the smallest batch whose time per row is within a tenth of the best, among the step's points
 * at its first length; 0: the step has no point. */
int32_t tt_profile_file_preferred(const struct tt_calibration_point *points, int32_t count,
                                  int32_t step);

/* Appends the file's text. */
void tt_profile_file_print(const struct tt_profile_file_origin *origin,
                           const struct tt_calibration_point *points, int32_t count,
                           struct tt_text *out_text);

#endif
