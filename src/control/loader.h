/* From a model in the repository to a model that serves: asks how it is placed (control/placing.h),
 * makes its session, measures it where its policy wants to know and nobody has, warms it up, and
 * places it in the domain of its policy.
 *
 * Domains are made as they are needed, each with an engine of its own, and given back with their
 * threads when their last model has gone. Models of one policy (with equal options) share a domain
 * and its executors; one whose configuration says how many instances it wants has a domain of its
 * own, with so many executors. What is not served yet runs on an executor apart, so that nothing
 * here waits for traffic or disturbs its order.
 *
 * All of it is called by one thread at a time, which may take seconds here; requests go on
 * meanwhile. Which models are to be loaded, and when, is not decided here (control/control.h). */
#ifndef TT_CONTROL_LOADER_H
#define TT_CONTROL_LOADER_H

#include "base/log/log_settings.h"
#include "model/repository/repository.h"
#include "serve/serving.h"

struct tt_loader_options {
    int32_t executors;       /* per domain, where a model does not ask for instances */
    const char *onnxruntime; /* the library's path; NULL: looked for */
    /* How every model is placed, whatever its configuration asks for, and without its queue rules
     * (borrowed for life); NULL: as it asks. */
    const struct tt_serving_policy *policy;
    bool measure_stale; /* a profile of another model file or device: measure, do not refuse */
    /* Called with lines for people: what serves how. Borrowed for life. */
    void (*say)(void *context, enum tt_log_level level, const char *line);
    void *say_context;
};

struct tt_loader;

/* Errors: those of the library. */
TT_MUST_CHECK enum tt_err tt_loader_open(const struct tt_loader_options *options,
                                         struct tt_serving *serving, struct tt_loader **out_loader,
                                         struct tt_error *why);
/* Everything was unloaded before; the server still exists. NULL-safe. */
void tt_loader_close(struct tt_loader *take_self);

/* Loads version number `version` (an index) of a model without problems; it is in its domain then,
 * and shown to nobody yet. `stats` as in the spec. Errors: those of engine, profile, warm-up,
 * policy and domain, with the sentence that becomes the reason. */
TT_MUST_CHECK enum tt_err tt_loader_load(struct tt_loader *self,
                                         const struct tt_repository_model *model, int32_t version,
                                         struct tt_model_stats *stats,
                                         struct tt_served_model **out_served, struct tt_error *why);
/* Out of its domain and memory; nobody holds a reference. */
void tt_loader_unload(struct tt_loader *self, struct tt_served_model *take_served);

#endif
