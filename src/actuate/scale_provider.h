/* What runs the machines of a pool: `scale(pool, count)`. A provider runs the first `count` nodes
 * of the pool, in the order of the cluster's description, and stops the others.
 *
 * Implementations: kubernetes_provider.h, command_provider.h, emulated_provider.h. Each checks
 * that the caller is still the primary (`confirm`) after it has looked at what runs and before it
 * changes it. So if another primary has acted since, the change is refused where the provider can
 * compare and swap; see each one's header.
 *
 * Life: made by a program that serves as a scheduler -> scale, one call at a time, on any thread
 * -> close. When to call is decided elsewhere (scale/pool_scaler.h). Here are the types and the
 * placeholders of templates; implemented in scale_template.c. */
#ifndef TT_ACTUATE_SCALE_PROVIDER_H
#define TT_ACTUATE_SCALE_PROVIDER_H

#include "base/text.h"
#include "base/threads/flag.h"

struct tt_scale_request {
    const char *pool;
    int32_t count, devices;   /* nodes that are to run, and their devices */
    int32_t before;           /* nodes that the caller believes were asked for last */
    const char *const *names; /* [node_count]: the nodes of the pool, in their order */
    int32_t node_count;
    uint64_t epoch;                 /* of the primary that asks */
    const struct tt_flag *stopping; /* raised: return soon, with CANCELLED */
    /* OK: most nodes obey `epoch` at some instant after this call began. It may take a while. */
    enum tt_err (*confirm)(void *context, struct tt_error *why);
    void *context;
};

struct tt_scale_provider {
    const char *name; /* for people: "kubernetes" */
    void *self;
    /* Blocks; within the provider's time limit. OK: the provider has promised. BUSY: the count
     * was changed elsewhere, to *out_found nodes (-1: not known). UNAVAILABLE, TIMEOUT, INVALID,
     * IO, ...: it was refused or did not work, and what runs is as before as far as is known. */
    enum tt_err (*scale)(void *self, const struct tt_scale_request *request, int32_t *out_found,
                         struct tt_error *why);
    /* How many nodes run or are promised. Errors as above. NULL: it cannot be asked. */
    enum tt_err (*look)(void *self, const struct tt_scale_request *request, int32_t *out_found,
                        struct tt_error *why);
    void (*close)(void *take_self);
};

/* ---- templates: {pool}, {devices}, {nodes}, {epoch} ---- */

/* Errors: INVALID: a brace that is not part of one of these. */
TT_MUST_CHECK enum tt_err tt_scale_template_check(const char *template_text, struct tt_error *why);
/* Appends the template with the request's values. */
void tt_scale_template_put(const char *template_text, const struct tt_scale_request *request,
                           struct tt_text *out);

#endif
