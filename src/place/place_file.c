#include "place/place_file.h"

#include "model/text/textproto.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RATE_PER_S 1e7
#define MAX_MIB 1e7
#define MAX_COST 1e7
#define MIB 1048576.0

/* Where a message says something wrong, and how to read profiles. */
struct place {
    const struct tt_textproto_places *places;
    const char *path;
    const void *message;
    tt_place_memory_fn *memory;
};

static enum tt_err wrong(const struct place *at, const char *field, struct tt_error *why,
                         const char *format, ...) TT_PRINTF(4, 5);
static enum tt_err wrong(const struct place *at, const char *field, struct tt_error *why,
                         const char *format, ...) {
    va_list args;
    va_start(args, format);
    enum tt_err err =
        tt_textproto_places_wrong(at->places, at->path, at->message, field, why, format, args);
    va_end(args);
    return err;
}

/* value * scale, rounded; NaN and what is out of 0 .. high are refused. */
static enum tt_err take(const struct place *at, const char *field, double value, double high,
                        double scale, int64_t *out, struct tt_error *why) {
    if (!(value >= 0 && value <= high))
        return wrong(at, field, why, "%s is %g; it must be 0 .. %g", field, value, high);
    *out = (int64_t)(value * scale + 0.5);
    return TT_OK;
}

/* The profile's memory where the model states none. */
static enum tt_err take_profile(const struct place *at, const Tutti__PlacementModel *from,
                                struct tt_place_model *out, struct tt_error *why) {
    const char *slash = from->profile[0] == '/' ? NULL : strrchr(at->path, '/');
    int folder = slash ? (int)(slash - at->path) + 1 : 0;
    int64_t static_bytes = 0, dynamic_bytes = 0;
    char path[4096];
    struct tt_error inner;
    if (snprintf(path, sizeof(path), "%.*s%s", folder, at->path, from->profile) >=
        (int)sizeof(path))
        return wrong(at, "profile", why, "profile has more than %zu characters", sizeof(path) - 1);
    enum tt_err err = at->memory(path, &static_bytes, &dynamic_bytes, &inner);
    if (err)
        return wrong(at, "profile", why, "%s", inner.text);
    if (!from->has_static_mib && static_bytes == 0)
        return wrong(
            at, "profile", why,
            "%s does not state static_mib; measure it with tutti profile, or state it here", path);
    out->static_bytes = from->has_static_mib ? out->static_bytes : static_bytes;
    out->dynamic_bytes = from->has_dynamic_mib ? out->dynamic_bytes : dynamic_bytes;
    return TT_OK;
}

static enum tt_err take_model(const struct place *at, const Tutti__PlacementModel *from,
                              struct tt_place_model *out, struct tt_error *why) {
    *out = (struct tt_place_model){.name = from->name, .now = TT_PLACE_NOWHERE};
    if (from->name[0] == '\0')
        return wrong(at, "name", why, "a model needs a name");
    enum tt_err err =
        take(at, "rate_per_s", from->rate_per_s, MAX_RATE_PER_S, TT_PLACE_MICRO, &out->rate, why);
    if (!err)
        err = take(at, "static_mib", from->static_mib, MAX_MIB, MIB, &out->static_bytes, why);
    if (!err)
        err = take(at, "dynamic_mib", from->dynamic_mib, MAX_MIB, MIB, &out->dynamic_bytes, why);
    if (!err)
        err = take(at, "cost", from->cost, MAX_COST, TT_PLACE_MICRO, &out->cost, why);
    if (!err && from->profile[0])
        err = take_profile(at, from, out, why);
    return err;
}

static enum tt_err take_limits(struct tt_place_file *self, const struct place *at,
                               struct tt_error *why) {
    const Tutti__PlacementProblem *from = self->message;
    struct tt_place_problem *out = &self->problem;
    if (from->sub_clusters < 1 || from->sub_clusters > TT_PLACE_MAX_CLUSTERS)
        return wrong(at, "sub_clusters", why, "sub_clusters is %" PRId32 "; it must be 1 .. %d",
                     from->sub_clusters, TT_PLACE_MAX_CLUSTERS);
    if (from->n_model < 1 || from->n_model > TT_PLACE_MAX_MODELS)
        return wrong(at, "model", why, "there are %zu models; there must be 1 .. %d", from->n_model,
                     TT_PLACE_MAX_MODELS);
    out->cluster_count = from->sub_clusters;
    out->model_count = (int32_t)from->n_model;
    out->seed = from->seed;
    out->weight = from->memory_weight;
    out->max_cost = -1;
    self->has_cost = from->has_max_cost;
    if (!(out->weight >= 0 && out->weight <= 1000))
        return wrong(at, "memory_weight", why, "memory_weight is %g; it must be 0 .. 1000",
                     out->weight);
    enum tt_err err =
        take(at, "max_rate_per_s", from->max_rate_per_s, MAX_RATE_PER_S * TT_PLACE_MAX_MODELS,
             TT_PLACE_MICRO, &out->max_rate, why);
    if (!err)
        err = take(at, "max_memory_mib", from->max_memory_mib, MAX_MIB * 100, MIB, &out->max_memory,
                   why);
    if (!err && self->has_cost)
        err = take(at, "max_cost", from->max_cost, MAX_COST * TT_PLACE_MAX_MODELS, TT_PLACE_MICRO,
                   &self->max_cost, why);
    return err;
}

static int by_name(const void *left, const void *right) {
    const struct tt_place_model *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

/* The models by name, malloc'd. Errors: NO_MEMORY, INVALID for a name that is there twice. */
static enum tt_err sort_names(const struct tt_place_file *self, const char *path,
                              struct tt_place_model ***out_sorted, struct tt_error *why) {
    size_t count = (size_t)self->problem.model_count;
    struct tt_place_model **sorted = malloc(count * sizeof(struct tt_place_model *));
    if (!sorted)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (size_t i = 0; i < count; i++)
        sorted[i] = &self->models[i];
    qsort(sorted, count, sizeof(struct tt_place_model *), by_name);
    for (size_t i = 1; i < count; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0) {
            enum tt_err err = tt_fail(TT_ERR_INVALID, why, "%s: model '%s' is given twice", path,
                                      sorted[i]->name);
            free(sorted);
            return err;
        }
    *out_sorted = sorted;
    return TT_OK;
}

static enum tt_err take_all(struct tt_place_file *self, struct place at, struct tt_error *why) {
    at.message = self->message;
    enum tt_err err = take_limits(self, &at, why);
    if (err)
        return err;
    self->models = calloc(self->message->n_model, sizeof(*self->models));
    if (!self->models)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->problem.models = self->models;
    for (size_t i = 0; i < self->message->n_model && !err; i++) {
        at.message = self->message->model[i];
        err = take_model(&at, self->message->model[i], &self->models[i], why);
    }
    struct tt_place_model **sorted = NULL;
    if (!err)
        err = sort_names(self, at.path, &sorted, why);
    free(sorted);
    return err;
}

enum tt_err tt_place_file_open(const char *path, tt_place_memory_fn *memory,
                               struct tt_place_file **out_file, struct tt_error *why) {
    struct tt_textproto_places places;
    ProtobufCMessage *message;
    tt_textproto_places_init(&places);
    enum tt_err err =
        tt_textproto_read_file(path, &tutti__placement_problem__descriptor, &places, &message, why);
    if (!err) {
        struct tt_place_file *self = calloc(1, sizeof(*self));
        if (!self) {
            protobuf_c_message_free_unpacked(message, NULL);
            err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
        } else {
            self->message = (Tutti__PlacementProblem *)message;
            err = take_all(self, (struct place){&places, path, NULL, memory}, why);
            if (err)
                tt_place_file_close(self);
            else
                *out_file = self;
        }
    }
    tt_textproto_places_fini(&places);
    return err;
}

static enum tt_err take_entry(struct tt_place_file *self, const struct place *at,
                              struct tt_place_model **sorted, bool *seen,
                              const Tutti__PlacementEntry *entry, struct tt_error *why) {
    struct tt_place_model key = {.name = entry->model}, *wanted = &key;
    struct tt_place_model **found = bsearch(&wanted, sorted, (size_t)self->problem.model_count,
                                            sizeof(struct tt_place_model *), by_name);
    if (entry->sub_cluster < 0)
        return wrong(at, "sub_cluster", why, "sub_cluster is %" PRId32 "; it must be 0 or more",
                     entry->sub_cluster);
    if (!found) {
        self->gone++;
        return TT_OK;
    }
    if (seen[*found - self->models])
        return wrong(at, "model", why, "model '%s' is placed twice", entry->model);
    seen[*found - self->models] = true;
    if (entry->sub_cluster < self->problem.cluster_count)
        (*found)->now = entry->sub_cluster;
    else
        self->unassigned++;
    return TT_OK;
}

static enum tt_err take_placement(struct tt_place_file *self, const char *path,
                                  const Tutti__Placement *message,
                                  const struct tt_textproto_places *places, struct tt_error *why) {
    struct tt_place_model **sorted;
    enum tt_err err = sort_names(self, path, &sorted, why);
    if (err)
        return err;
    bool *seen = calloc((size_t)self->problem.model_count, sizeof(bool));
    if (!seen)
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (size_t k = 0; k < message->n_placement && !err; k++) {
        struct place at = {places, path, message->placement[k]};
        err = take_entry(self, &at, sorted, seen, message->placement[k], why);
    }
    free(seen);
    free(sorted);
    return err;
}

enum tt_err tt_place_file_previous(struct tt_place_file *self, const char *path,
                                   struct tt_error *why) {
    struct tt_textproto_places places;
    ProtobufCMessage *message;
    tt_textproto_places_init(&places);
    enum tt_err err =
        tt_textproto_read_file(path, &tutti__placement__descriptor, &places, &message, why);
    if (!err) {
        err = take_placement(self, path, (Tutti__Placement *)message, &places, why);
        protobuf_c_message_free_unpacked(message, NULL);
    }
    if (!err && self->has_cost)
        self->problem.max_cost = self->max_cost;
    tt_textproto_places_fini(&places);
    return err;
}

void tt_place_file_close(struct tt_place_file *take_file) {
    if (!take_file)
        return;
    if (take_file->message)
        tutti__placement_problem__free_unpacked(take_file->message, NULL);
    free(take_file->models);
    free(take_file);
}

void tt_place_file_put(const struct tt_place_problem *problem, const int32_t *at,
                       struct tt_text *out_text) {
    for (int32_t i = 0; i < problem->model_count; i++) {
        tt_text_puts(out_text, "placement { model: ");
        tt_textproto_put_string(out_text, problem->models[i].name);
        tt_text_printf(out_text, " sub_cluster: %" PRId32 " }\n", at[i]);
    }
}
