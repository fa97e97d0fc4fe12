/* Which models the server has, and the thread that loads and unloads them.
 *
 * Opened with a repository, or several, and a mode: `none` loads every model and leaves it at that,
 * `poll` looks again every so often and follows what changed on disk, `explicit` loads what it is
 * told to, at the start and by commands (serve/model_command.h). Opening loads the first models on
 * the caller's thread; a model that cannot be loaded is UNAVAILABLE with its reason, and the others
 * serve.
 *
 * A load is all or nothing: every version that the version policy asks for is loaded beside those
 * that serve, then all are shown at once in a new catalogue, and the old ones finish what they have
 * and go. Where one version fails, what served goes on serving. An unload takes the versions out of
 * the catalogue (UNLOADING) and frees them when their last request is answered (UNAVAILABLE,
 * "unloaded"). No request is lost on either way.
 *
 * It never decides how a model is served (control/loader.h), and never runs on a scheduler's or
 * port's thread. */
#ifndef TT_CONTROL_CONTROL_H
#define TT_CONTROL_CONTROL_H

#include "control/loader.h"

enum tt_control_mode { TT_CONTROL_NONE, TT_CONTROL_POLL, TT_CONTROL_EXPLICIT };

struct tt_control_options {
    /* Directories with models; a name that lies in two is no model. Borrowed for life. */
    const char *const *repositories;
    int32_t repository_count; /* >= 1 */
    enum tt_control_mode mode;
    int64_t poll_ns;         /* between two looks at the repository; > 0 */
    const char *const *load; /* explicit: names to load at the start, "*" for all */
    int32_t load_count;
    const struct tt_limits *limits; /* NULL: the standard ones */
    struct tt_loader_options loader;
    struct tt_recorder *recorder; /* of every domain; borrowed for life; NULL: none */
    int32_t scheduler_threads;    /* tt_serving_use_threads */
};

struct tt_control; /* the server, its library, engines and models */

/* Errors: NOT_FOUND, IO (the repository), NOT_FOUND (a name to load that is not there), and those
 * of the library. The server is started. */
TT_MUST_CHECK enum tt_err tt_control_open(const struct tt_control_options *options,
                                          struct tt_control **out_control, struct tt_error *why);
struct tt_serving *tt_control_serving(struct tt_control *self);
/* Versions that serve, and that were to, when it was opened. */
int32_t tt_control_ready_count(const struct tt_control *self);
int32_t tt_control_model_count(const struct tt_control *self);
/* The ports are closed before. NULL-safe. */
void tt_control_close(struct tt_control *take_self);

#endif
