/* tutti cluster load, unload: asks a frontend to load or unload a model at all nodes, shows how far
 * each is, and what became of it. Implemented in cluster_models.c. */
#ifndef TT_CMD_CLUSTER_MODELS_H
#define TT_CMD_CLUSTER_MODELS_H

#include "fleet/cluster_file.h"

#include <jansson.h>

struct tt_cluster_models_options {
    const struct tt_cluster_file *file;
    /* One line to the node with this number, and its answer. */
    enum tt_err (*ask)(const void *context, int32_t number, const char *line, json_t **out_answer,
                       struct tt_error *why);
    const void *context;
    const char *model;
    bool is_load, json;
    int64_t wait_ns;
};

/* The exit code (cmd/outcome.h). */
int tt_cluster_models_change(const struct tt_cluster_models_options *options);

#endif
