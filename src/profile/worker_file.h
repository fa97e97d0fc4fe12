/* How long mixes of workers take, on disk (proto/workers.proto in text form): what `tutti profile
 * --workers` writes beside a model, workers.pbtxt, and the server reads for policy elastic (E5).
 *
 * A mix is counts[k] workers of batch size 2^k that start full at one instant. The file says of
 * which model file and on which device it was measured, and is stale for any other. */
#ifndef TT_PROFILE_WORKER_FILE_H
#define TT_PROFILE_WORKER_FILE_H

#include "base/text.h"
#include "workers.pb-c.h"

#include <stdbool.h>

enum { TT_WORKER_SIZES = 8 }; /* 1, 2, 4 .. 128 */

struct tt_worker_mix {
    int32_t counts[TT_WORKER_SIZES];
    int32_t runs;
    int64_t mean_ns, low_ns, high_ns; /* over the workers; median, 10th and 90th percentile */
    int64_t last_ns;                  /* until the last one ended, median */
};

int32_t tt_worker_mix_total(const struct tt_worker_mix *self); /* rows */
/* "16,8,8"; returns `out`. */
char *tt_worker_mix_print(const int32_t counts[TT_WORKER_SIZES], char *out, size_t capacity);

struct tt_worker_file_origin {
    const char *source, *device, *date, *model_sha256;
    int32_t length; /* of the inputs where it varies, else 0 */
};

/* Reads the file: `*out_mixes` is malloc'ed, the caller's. `wanted` (its source and date do not
 * matter; a length < 0: any; NULL: whatever it is of) must be what it was measured of. Errors:
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
