/* The options of policy elastic from measured workers: the best of those that `tutti profile
 * --workers` tried on this machine (profile/worker_search.h), read from workers.pbtxt beside the
 * model. Only variant enhanced uses them.
 *
 * `configurations` in tutti.pbtxt takes precedence. With `workers`, the configurations are those
 * that these workers can form; with neither, the workers are the union of all the best. A file of
 * another model file or machine is stale, as with profiles (profile/find_profile.h). */
#ifndef TT_PROFILE_FIND_WORKERS_H
#define TT_PROFILE_FIND_WORKERS_H

#include "base/log/log_settings.h"
#include "model/repository/repository.h"
#include "profile/worker_search.h"

enum { TT_WORKERS_DEVICE_BYTES = 300 };

/* "AMD EPYC 9B14, 2 processors": the device on which workers that run at once are measured; returns
 * `out`. */
char *tt_workers_device(char *out, size_t capacity);

struct tt_find_workers_options {
    const struct tt_repository_model *model;
    const char *path;  /* the version's model file */
    const char *given; /* option `workers`, or NULL */
    bool skip_stale;   /* ignore a stale file with a warning; else it is an error */
    bool strict;       /* a file of this model from another device is an error, too */
    void (*say)(void *context, enum tt_log_level level, const char *line);
    void *say_context;
};

/* NOT_FOUND: there is no file, or it is ignored as stale. INVALID: it is damaged or stale, or the
 * given workers can form none of its choices. Also IO, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_find_workers(const struct tt_find_workers_options *options,
                                          struct tt_worker_options *out_workers,
                                          struct tt_error *why);

#endif
