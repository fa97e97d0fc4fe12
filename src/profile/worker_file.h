/* How long mixes of workers take, on disk (proto/workers.proto in text form). `tutti profile
 * --workers` writes workers.pbtxt beside a model; the server reads it for policy elastic (E5).
 *
 * A mix is counts[k] workers of batch size 2^k that start full at one instant. The file names the
 * model file and the device that it was measured on, and is stale for any other. */
#ifndef TT_PROFILE_WORKER_FILE_H
#define TT_PROFILE_WORKER_FILE_H

#include "base/text.h"
#include "workers.pb-c.h"

enum { TT_WORKER_SIZES = 8 }; /* 1, 2, 4 .. 128 */

struct tt_worker_mix {
    int32_t counts[TT_WORKER_SIZES];
    int32_t runs;
    int64_t mean_ns, low_ns, high_ns; /* mean over the workers: median, 10th and 90th percentile */
    int64_t last_ns;                  /* until the last worker ended: median */
};

/* The sum of the batch sizes, in rows. */
int32_t tt_worker_mix_total(const struct tt_worker_mix *self);
/* "16,8,8"; returns `out`. */
char *tt_worker_mix_print(const int32_t counts[TT_WORKER_SIZES], char *out, size_t capacity);

struct tt_worker_file_origin {
    const char *source, *device, *date, *model_sha256;
    int32_t length; /* of the inputs if it varies, else 0 */
};

/* `*out_mixes` is malloc'ed, the caller's. The file must have been measured of `wanted` (NULL: of
 * anything); its source and date are ignored; a length < 0 and a device of NULL match any. Errors:
 * NOT_FOUND, IO, INVALID with what is wrong, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_worker_file_read(const char *path,
                                              const struct tt_worker_file_origin *wanted,
                                              struct tt_worker_mix **out_mixes, int32_t *out_count,
                                              struct tt_error *why);
/* Appends the file's text. */
void tt_worker_file_print(const struct tt_worker_file_origin *origin,
                          const struct tt_worker_mix *mixes, int32_t count,
                          struct tt_text *out_text);

#endif
