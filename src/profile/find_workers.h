/* What policy elastic is told of a model's workers: the best of those that `tutti profile
 * --workers` tried on this machine (profile/worker_search.h), from workers.pbtxt beside the model.
 *
 * Only variant enhanced wants to know. Who says `configurations` in tutti.pbtxt has chosen himself;
 * who says `workers` gets the configurations that can be made of them; who says neither gets the
 * union of all the best. A file of another model file or machine is refused as a profile is
 * (profile/find_profile.h). */
#ifndef TT_PROFILE_FIND_WORKERS_H
#define TT_PROFILE_FIND_WORKERS_H

#include "base/log_settings.h"
#include "model/repository/repository.h"
#include "profile/worker_search.h"

enum { TT_WORKERS_DEVICE_BYTES = 300 };

/* "AMD EPYC 9B14, 2 processors": what measurements of workers that run at once hold for; returns
 * `out`. */
char *tt_workers_device(char *out, size_t capacity);

struct tt_find_workers_options {
    const struct tt_repository_model *model;
    const char *path;  /* of the version's model file */
    const char *given; /* option `workers`, or NULL */
    bool skip_stale;   /* with a warning, instead of refusing to serve */
    void (*say)(void *context, enum tt_log_level level, const char *line);
    void *say_context;
};

/* NOT_FOUND: there is no file, or none that counts. Errors: also IO, INVALID (damaged; stale; of
 * the workers that are given nothing can be made), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_find_workers(const struct tt_find_workers_options *options,
                                          struct tt_worker_options *out_workers,
                                          struct tt_error *why);

#endif
