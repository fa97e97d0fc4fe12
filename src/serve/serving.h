/* The server without its sockets: models, domains, ports and the scheduler, put together.
 *
 * Life: _open(), limits and observers are set, models are placed, _start(); ports are opened, used
 * and closed (serve/port.h), models come and go; _close(). The engine is opened by the caller with
 * tt_serving_done() as its `done` and the server as the context, and closed by the caller after the
 * server.
 *
 * A request: a connection finds its model here (tt_serving_find()), begins an inference on it
 * (serve/inference.h), which its port sends to the scheduler (serve/scheduler.h), which hands it to
 * the model's domain (serve/domain.h); the answer comes back through the port.
 *
 * Order of the modules: each one includes and calls only those above it in this list.
 *
 *     limits, model_stats, pace, short_runs, model_command, mailbox, emissions,
 *         cell_row_assignment, inference_state     know no other module of this folder
 *     input_ring, blank_rows                       memory of inputs
 *     served_model, catalogue, inference_shape     what is served
 *     cell_run, cell_tasks, unfolder               requests and tasks of models of cells
 *     load_window, inference_end, domain_meter     what an inference's end counts
 *     run_watch, domain_task, domain_watch         runs that take too long
 *     domain                                       the mechanism and its engine
 *     scheduler, watchdog                          turns; looks at how long runs take
 *     port, inference                              a connection thread's side
 *     ensemble, ensemble_run                       requests whose steps are requests to other
 * models serving                                      this one
 *
 * A domain calls upwards through struct tt_domain_client only (serve/inference_end.h).
 *
 * Functions with a port are for the port's thread, tt_serving_done() is for executors' threads,
 * tt_serving_ready(), tt_serving_hold(), tt_serving_retire(), tt_serving_trace() and the accessors
 * are for any. All others are for one thread at a time, the owner's. Implemented in serving.c. */
#ifndef TT_SERVE_SERVING_H
#define TT_SERVE_SERVING_H

#include "base/err.h"
#include "base/text.h"
#include "serve/port.h"

struct tt_engine;
struct tt_device_task;
struct tt_limits;
struct tt_model_stats;
struct tt_option;
struct tt_recorder;
struct tt_serving;
struct tt_trace;

/* ---- opening and closing ---- */

/* Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_serving_open(struct tt_serving **out_serving, struct tt_error *why);
/* Other limits than the default ones; before the first port is opened and the first model placed.
 */
void tt_serving_set_limits(struct tt_serving *serving, const struct tt_limits *limits);
/* Domains whose policy splits into halves (multicore/multicore.h) are scheduled on so many threads
 * of their own. 1: one for all; more: one of them ranks; 0 (the default): none. Before the first
 * tt_serving_place(). */
void tt_serving_use_threads(struct tt_serving *serving, int32_t scheduler_threads);
/* Records every domain from its beginning (borrowed; closed after the server). Before the first
 * tt_serving_place(). */
void tt_serving_record(struct tt_serving *serving, struct tt_recorder *recorder);
/* Sets the object that loads and unloads models for clients. Before the first port is opened. */
void tt_serving_set_controller(struct tt_serving *serving,
                               const struct tt_model_controller *controller);
/* When a started server is ready; by default always. */
struct tt_readiness {
    bool needs_all;    /* not while a model that should serve does not */
    bool needs_one;    /* not while no model serves, */
    bool may_be_empty; /* unless none is wanted */
};
/* Before the first publication. */
void tt_serving_set_readiness(struct tt_serving *serving, struct tt_readiness readiness);
/* While it is held, a server is not ready, but serves what comes. One thread at a time. */
void tt_serving_hold(struct tt_serving *serving, bool is_held);
/* While it is held, a model that serves is UNAVAILABLE for clients, since no backend of the cluster
 * takes its requests; nothing is unloaded, and those under way go on. A model that is loaded anew
 * is not held. One thread at a time. True: that has changed. */
bool tt_serving_hold_model(struct tt_port *port, const char *name, const char *version,
                           bool is_held);
/* The server is about to stop: it is not ready from now on, and serves on. Any thread. */
void tt_serving_retire(struct tt_serving *serving);
/* Starts the scheduler. Errors: IO, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_serving_start(struct tt_serving *serving, struct tt_error *why);
/* The server stops: from `at` on runs that are under way are stopped, and given up if they do not
 * stop. Their requests fail, so that ports can be closed. The last call counts. Any thread, and
 * signal handlers. */
void tt_serving_hurry_at(struct tt_serving *serving, int64_t at);
/* How many runs, and calls of unfold plug-ins, were given up and have not returned. While there are
 * any, the server and its engine must not be closed: the process ends without that. Any thread. */
int64_t tt_serving_lost_runs(struct tt_serving *serving);
/* Stops the watchdog and the scheduler: no turn runs from here on. The ports are closed before. */
void tt_serving_stop(struct tt_serving *serving);
/* The same, unless it was done, and frees models and domains. NULL-safe. */
void tt_serving_close(struct tt_serving *take_serving);

/* The engine's `done`; context is the struct tt_serving. */
void tt_serving_done(void *context, struct tt_device_task *task);

/* ---- models ---- */

/* Adds a model that stays as long as the server, loaded and placed, or unavailable. Before
 * tt_serving_start(), which shows them all. For servers whose models never change; others publish
 * catalogues of their own. */
void tt_serving_add(struct tt_serving *serving, struct tt_served_model *take_model);

/* What a model's configuration asks of its domain. */
struct tt_serving_policy {
    const char *name;
    const struct tt_option *options;
    int32_t option_count;
    /* How its executors are set up; 0 and NULL: the defaults of serve/domain.h. */
    int32_t depth;
    const int32_t *devices; /* borrowed until the domain is made */
};
/* Puts a loaded model into the domain of its policy on this engine, which is made when there is
 * none: `executors` executors of the engine from *next_executor on go to a new domain. At any time
 * before tt_serving_close(). Errors: NOT_FOUND (no such policy; `why` lists them), INVALID (its
 * options), UNSUPPORTED (max_batch is too large), BUSY (the engine has too few executors left),
 * NO_MEMORY. On an error the model belongs to no domain, and the caller says why with
 * tt_served_model_unavailable(). */
TT_MUST_CHECK enum tt_err tt_serving_place(struct tt_serving *serving,
                                           struct tt_served_model *model,
                                           const struct tt_serving_policy *policy,
                                           struct tt_engine *engine, int32_t executors,
                                           int32_t *next_executor, struct tt_error *why);
/* No new requests will come to the model, except those under way: requests that wait to be batched
 * need not wait for more. */
void tt_serving_drain(struct tt_serving *serving, struct tt_served_model *model);
/* Takes the model out of its domain; it has no user left. */
void tt_serving_remove(struct tt_serving *serving, struct tt_served_model *model);
/* Frees the domains that run on the engine; none has a model left. The engine may be closed then.
 */
void tt_serving_leave_engine(struct tt_serving *serving, const struct tt_engine *engine);
/* Shows the (sealed) catalogue to every port, instead of the previous one. */
void tt_serving_publish(struct tt_serving *serving, struct tt_catalogue *take_catalogue);

/* ---- what connections ask ---- */

/* Opens a port for the calling thread; tt_port_close() closes it. Any thread. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_serving_open_port(struct tt_serving *serving, tt_port_wake_fn *wake,
                                               void *wake_context, struct tt_port **out_port,
                                               struct tt_error *why);
/* NOT_FOUND (no such model or version), UNAVAILABLE (known, but not ready; the reason is in `why`).
 * `version` "" means the highest ready one. The model is borrowed until the port's next find, drain
 * or index, and from tt_inference_begin() on until that inference is released. */
TT_MUST_CHECK enum tt_err tt_serving_find(struct tt_port *port, const char *name,
                                          const char *version, struct tt_served_model **out_model,
                                          struct tt_error *why);
/* The repository as clients see it: calls `each` per model version, by name, the highest version
 * first. state: "READY", "UNAVAILABLE", "LOADING", "UNLOADING"; version and state are "" for a
 * model of the repository that was never requested; model is NULL unless it is READY, or held. */
typedef void tt_serving_index_fn(void *context, const char *name, const char *version,
                                 const char *state, const char *reason,
                                 const struct tt_served_model *model);
void tt_serving_index(struct tt_port *port, tt_serving_index_fn *each, void *context);
/* Calls `each` for the versions that serve: of `model`, or of all (NULL); `version` "" is any. */
typedef void tt_serving_stats_fn(void *context, const char *name, const char *version,
                                 const struct tt_model_stats *stats);
void tt_serving_stats(struct tt_port *port, const char *model, const char *version,
                      tt_serving_stats_fn *each, void *context);
/* Started, not retired, as tt_serving_set_readiness() asks, and able to give up runs that take too
 * long. */
bool tt_serving_ready(const struct tt_serving *serving);
/* What every domain did in the last `last_ns`, as Chrome trace JSON (record/trace.h), appended to
 * `out_json`. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_serving_trace(struct tt_serving *serving, int64_t last_ns,
                                           struct tt_text *out_json, struct tt_error *why);

/* ---- its parts ---- */

struct tt_scheduler *tt_serving_scheduler(struct tt_serving *serving);
/* The latest batches and requests of all domains (record/trace.h), for readers on any thread. */
struct tt_trace *tt_serving_latest(struct tt_serving *serving);
/* NULL: nothing is recorded. */
struct tt_recorder *tt_serving_recorder(struct tt_serving *serving);

#endif
