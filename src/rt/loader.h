/* From a repository on disk to a server that serves it: opens the engine, loads every model that
 * has no problem, places each in the domain of its policy. A model that fails stays UNAVAILABLE
 * with its reason; the others serve. */
#ifndef TT_RT_LOADER_H
#define TT_RT_LOADER_H

#include "rt/serving_options.h"

struct tt_loader_options {
    const char *repository;
    int32_t executors;       /* per domain */
    const char *onnxruntime; /* the library's path; NULL: looked for */
    /* Called once per model, for people: what it is doing, or why it does not serve. */
    void (*say)(void *context, const char *line);
    void *say_context;
};

struct tt_loaded; /* the repository, library, engine and server that belong together */

/* Errors: NOT_FOUND, IO (the repository), and those of the engine. The server is started. */
TT_MUST_CHECK enum tt_err tt_loader_open(const struct tt_loader_options *options,
                                         struct tt_loaded **out_loaded, struct tt_message *why);
struct tt_serving *tt_loader_serving(struct tt_loaded *self);
int32_t tt_loader_ready_count(const struct tt_loaded *self);
int32_t tt_loader_model_count(const struct tt_loaded *self);
/* The ports are closed before. NULL-safe. */
void tt_loader_close(struct tt_loaded *take_self);

#endif
