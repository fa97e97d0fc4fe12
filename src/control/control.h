/* The controller: which models the server has, and the thread that loads and unloads them.
 *
 * It is opened with one or more repositories and a mode. `none` loads every model once. `poll`
 * checks the repositories at intervals and follows their changes. `explicit` loads the models named
 * at the start, and then follows commands (serve/model_command.h). Opening loads the first models
 * on the caller's thread. A model that cannot be loaded is UNAVAILABLE with its reason; the others
 * serve.
 *
 * A load is all or nothing. All versions that the version policy selects are loaded while the old
 * ones serve. Then a new catalogue publishes all of them at once, and the old versions finish their
 * requests and are freed. If one version fails, the old ones continue to serve. An unload removes
 * the versions from the catalogue (UNLOADING), and frees them when their last request is answered
 * (UNAVAILABLE, "unloaded"). Neither loses a request.
 *
 * control/loader.h decides how a model is served. The controller never runs on a thread of the
 * scheduler or of a port. */
#ifndef TT_CONTROL_CONTROL_H
#define TT_CONTROL_CONTROL_H

#include "control/loader.h"

enum tt_control_mode { TT_CONTROL_NONE, TT_CONTROL_POLL, TT_CONTROL_EXPLICIT };

struct tt_control_options {
    /* Directories with models. A name that is in two of them is an error. Borrowed for life. */
    const char *const *repositories;
    int32_t repository_count; /* >= 1 */
    enum tt_control_mode mode;
    int64_t poll_ns;         /* interval between two checks of the repositories; > 0 */
    const char *const *load; /* explicit: names to load at the start; "*" loads all */
    int32_t load_count;
    /* explicit: takes clients' commands instead, on the thread of their port, and finishes them.
     * NULL: they are carried out here, as those with `is_local` always are. */
    void (*forward)(void *context, struct tt_model_command *take_command);
    void *forward_context;
    const struct tt_limits *limits; /* NULL: the defaults */
    bool strict_readiness;          /* not ready while a model that should serve does not */
    bool exit_on_error;             /* opening fails if a model that should serve does not */
    struct tt_loader_options loader;
    /* Tries each load in a process of this program first (control/load_trial.h); NULL: it does not.
     * Borrowed for life. */
    const char *trial_program;
    struct tt_recorder *recorder; /* records every domain; borrowed for life; NULL: none */
    int32_t scheduler_threads;    /* see tt_serving_use_threads */
};

struct tt_control; /* owns the server, its library, engines and models */

/* Starts the server. It is ready while some model serves; in mode explicit also while none was
 * requested. Errors: NOT_FOUND, IO (the repository), NOT_FOUND (a model to load that does not
 * exist), UNAVAILABLE (exit_on_error), those of the library. */
TT_MUST_CHECK enum tt_err tt_control_open(const struct tt_control_options *options,
                                          struct tt_control **out_control, struct tt_error *why);
struct tt_serving *tt_control_serving(struct tt_control *self);
/* Counted when it was opened: versions that serve, and versions that were to serve. */
int32_t tt_control_ready_count(const struct tt_control *self);
int32_t tt_control_model_count(const struct tt_control *self);
/* Ends the controller's thread, after the ports were closed. False: it was still loading or
 * unloading a model at `until_at`, or the engine never returned some batch. Then nothing more may
 * be called: the process must end without tt_control_close(). If only a batch was lost, no turn
 * runs any more, so that the recorder can be closed. */
TT_MUST_CHECK bool tt_control_stop(struct tt_control *self, int64_t until_at);
/* The ports must be closed, and no batch lost (tt_control_stop). NULL-safe. */
void tt_control_close(struct tt_control *take_self);

#endif
