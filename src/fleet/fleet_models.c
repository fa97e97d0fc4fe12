#include "fleet/fleet_models.h"

#include "base/array.h"
#include "base/fnv.h"
#include "serve/served_model_state.h"
#include "serve/serving.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add(void *context, const char *name, const char *version, const char *state,
                const char *reason, const struct tt_served_model *model) {
    (void)name;
    (void)version;
    (void)state;
    (void)reason;
    struct tt_fleet_models *self = context;
    if (!model || model->cells || self->failed)
        return;
    if (!TT_ARRAY_RESERVE(self->models, &self->capacity, self->count + 1)) {
        self->failed = true;
        return;
    }
    self->models[self->count++].served = model;
}

void tt_fleet_name_order(const struct tt_tensor_spec *specs, int32_t count, int32_t *out_order) {
    for (int32_t i = 0; i < count; i++) {
        int32_t at = i;
        for (; at > 0 && strcmp(specs[out_order[at - 1]].name, specs[i].name) > 0; at--)
            out_order[at] = out_order[at - 1];
        out_order[at] = i;
    }
}

static int compare(const void *a, const void *b) {
    const struct tt_served_model *x = ((const struct tt_fleet_model *)a)->served;
    const struct tt_served_model *y = ((const struct tt_fleet_model *)b)->served;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->version, y->version);
}

/* With a byte behind it that no text has, so that texts do not run together. */
static void digest(uint64_t *self, const char *text) {
    static const uint8_t end = 0xff;
    *self = tt_fnv_add(tt_fnv_add(*self, text, strlen(text)), &end, 1);
}

static void digest_tensors(uint64_t *self, const struct tt_tensor_spec *specs, const int32_t *order,
                           int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        digest(self, specs[order[i]].name);
        digest(self, tt_dtype_name(specs[order[i]].dtype));
    }
}

static void digest_model(uint64_t *self, const struct tt_fleet_model *model) {
    const struct tt_signature *signature = model->served->signature;
    char numbers[96];
    snprintf(numbers, sizeof(numbers), "%d %d %" PRId64 " %d %d", model->whole.max_batch,
             signature->batched, model->whole.slo_ns, signature->input_count,
             signature->output_count);
    digest(self, model->served->name);
    digest(self, model->served->version);
    digest(self, numbers);
    digest_tensors(self, signature->inputs, model->inputs, signature->input_count);
    digest_tensors(self, signature->outputs, model->outputs, signature->output_count);
}

static void digest_specs(uint64_t *self, const struct tt_tensor_spec *specs, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        const struct tt_shape *shape = &specs[i].shape;
        digest(self, specs[i].name);
        digest(self, tt_dtype_name(specs[i].dtype));
        *self = tt_fnv_add(*self, shape->dims, (size_t)shape->rank * sizeof(shape->dims[0]));
    }
}

/* Also the order of the tensors, which other nodes need not share. */
static uint64_t define(const struct tt_served_model *served) {
    const struct tt_signature *signature = served->signature;
    uint64_t hash = TT_FNV_START;
    char numbers[64];
    snprintf(numbers, sizeof(numbers), "%d %d %" PRId64, served->step_model.max_batch,
             signature->batched, served->step_model.slo_ns);
    digest(&hash, served->name);
    digest(&hash, served->version);
    digest(&hash, numbers);
    digest_specs(&hash, signature->inputs, signature->input_count);
    digest_specs(&hash, signature->outputs, signature->output_count);
    return hash;
}

/* Copies what must outlive the served model. */
static enum tt_err complete(struct tt_fleet_model *self, struct tt_error *why) {
    const struct tt_served_model *served = self->served;
    self->name = strdup(served->name);
    self->version = strdup(served->version);
    if (!self->name || !self->version)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    enum tt_err err = tt_profile_new_table(served->step_model.whole, &self->profile, why);
    if (err)
        return err;
    self->definition = define(served);
    self->step = (struct tt_step){.name = self->name, .profile = self->profile};
    self->whole = (struct tt_step_model){.name = self->name,
                                         .step_count = 1,
                                         .steps = &self->step,
                                         .whole = self->profile,
                                         .slo_ns = served->step_model.slo_ns,
                                         .max_batch = served->step_model.max_batch};
    const struct tt_signature *signature = served->signature;
    tt_fleet_name_order(signature->inputs, signature->input_count, self->inputs);
    tt_fleet_name_order(signature->outputs, signature->output_count, self->outputs);
    return TT_OK;
}

enum tt_err tt_fleet_models_init(struct tt_fleet_models *self, struct tt_port *port,
                                 struct tt_error *why) {
    *self = (struct tt_fleet_models){.digest = TT_FNV_START};
    tt_serving_index(port, add, self);
    if (!self->failed && self->count == 0)
        return tt_fail(TT_ERR_UNAVAILABLE, why,
                       "no model serves, so a node of a cluster has nothing to do");
    if (!self->failed) {
        self->step_models = calloc((size_t)self->count, sizeof(const struct tt_step_model *));
        self->groups = calloc((size_t)self->count, sizeof(*self->groups));
    }
    if (self->failed || !self->step_models || !self->groups) {
        tt_fleet_models_fini(self);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    qsort(self->models, (size_t)self->count, sizeof(*self->models), compare);
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < self->count; i++) {
        err = complete(&self->models[i], why);
        if (err)
            break;
        self->step_models[i] = &self->models[i].whole;
        digest_model(&self->digest, &self->models[i]);
        bool is_version = i > 0 && strcmp(self->models[i].name, self->models[i - 1].name) == 0;
        self->groups[i] = is_version ? self->groups[i - 1] : (uint16_t)i;
    }
    if (err)
        tt_fleet_models_fini(self);
    return err;
}

void tt_fleet_models_fini(struct tt_fleet_models *self) {
    for (int32_t i = 0; i < self->count; i++) {
        free(self->models[i].name);
        free(self->models[i].version);
        tt_profile_free(self->models[i].profile);
    }
    free(self->models);
    free(self->step_models);
    free(self->groups);
    *self = (struct tt_fleet_models){0};
}

int32_t tt_fleet_models_group(const struct tt_fleet_models *self, const char *name) {
    for (int32_t i = 0; i < self->count; i++)
        if (strcmp(self->models[i].name, name) == 0)
            return i;
    return -1;
}

/* ---- loading again ---- */

struct loaded {
    struct tt_fleet_models *models;
    int32_t group, found;
    bool differs;
};

static void take_loaded(void *context, const char *name, const char *version, const char *state,
                        const char *reason, const struct tt_served_model *served) {
    (void)state;
    (void)reason;
    struct loaded *self = context;
    struct tt_fleet_models *models = self->models;
    if (!served || strcmp(name, models->models[self->group].name) != 0)
        return;
    for (int32_t i = self->group; i < models->count && models->groups[i] == self->group; i++)
        if (strcmp(version, models->models[i].version) == 0 &&
            models->models[i].definition == define(served)) {
            models->models[i].served = served;
            self->found++;
            return;
        }
    self->differs = true;
}

enum tt_err tt_fleet_models_loaded(struct tt_fleet_models *self, struct tt_port *port,
                                   int32_t group, struct tt_error *why) {
    struct loaded loaded = {.models = self, .group = group};
    int32_t size = 0;
    for (int32_t i = group; i < self->count && self->groups[i] == group; i++)
        size++;
    tt_serving_index(port, take_loaded, &loaded);
    if (!loaded.differs && loaded.found == size)
        return TT_OK;
    return tt_fail(
        TT_ERR_INVALID, why,
        "model '%s' has other versions, inputs, outputs or limits than when the nodes of "
        "the cluster started; restart them to serve it",
        self->models[group].name);
}

void tt_fleet_models_unloaded(struct tt_fleet_models *self, int32_t group) {
    for (int32_t i = group; i < self->count && self->groups[i] == group; i++)
        self->models[i].served = NULL;
}

int32_t tt_fleet_models_find(const struct tt_fleet_models *self,
                             const struct tt_served_model *served) {
    for (int32_t i = 0; i < self->count; i++)
        if (self->models[i].served == served)
            return i;
    return -1;
}
