#include "profile/find_workers.h"

#include "base/processors.h"
#include "model/text/digest.h"
#include "profile/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *tt_workers_device(char *out, size_t capacity) {
    char processor[256];
    snprintf(out, capacity, "%s, %d processors", tt_machine_processor(processor, sizeof(processor)),
             tt_processors_usable());
    return out;
}

/* True for a valid file that differs from what is wanted in the device alone. */
static bool is_from_elsewhere(const char *path, const struct tt_worker_file_origin *wanted) {
    struct tt_worker_file_origin anywhere = *wanted;
    struct tt_worker_mix *mixes;
    struct tt_error ignored;
    int32_t count;
    anywhere.device = NULL;
    if (tt_worker_file_read(path, &anywhere, &mixes, &count, &ignored))
        return false;
    free(mixes);
    return true;
}

enum tt_err tt_find_workers(const struct tt_find_workers_options *options,
                            struct tt_worker_options *out_workers, struct tt_error *why) {
    char path[4096], digest[TT_DIGEST_BYTES], device[TT_WORKERS_DEVICE_BYTES];
    tt_assert(options->path != NULL);
    tt_assert(options->say != NULL);
    snprintf(path, sizeof(path), "%s/workers.pbtxt", options->model->directory);
    if (access(path, F_OK) != 0)
        return TT_ERR_NOT_FOUND;
    enum tt_err err = tt_digest_file(options->path, digest, why);
    if (err)
        return err;
    struct tt_worker_file_origin wanted = {
        .device = tt_workers_device(device, sizeof(device)), .model_sha256 = digest, .length = -1};
    struct tt_worker_mix *mixes;
    int32_t count;
    err = tt_worker_file_read(path, &wanted, &mixes, &count, why);
    bool is_elsewhere = err == TT_ERR_INVALID && is_from_elsewhere(path, &wanted);
    if ((err == TT_ERR_INVALID && options->skip_stale) || (is_elsewhere && !options->strict)) {
        options->say(options->say_context, TT_LOG_WARNING, why->text);
        return TT_ERR_NOT_FOUND;
    }
    if (err)
        return err == TT_ERR_INVALID
                   ? tt_fail_in(err, why,
                                "workers (run `tutti profile %s --workers 4,8,16,32` again, or "
                                "serve with --measure-stale to do without)",
                                options->model->directory)
                   : err;
    bool any = tt_worker_search_options_of(mixes, count, options->given, out_workers);
    free(mixes);
    if (any)
        return TT_OK;
    return tt_fail(TT_ERR_INVALID, why,
                   "%s has no choice of 4 rows or more that workers %s can form", path,
                   options->given ? options->given : "at all");
}
