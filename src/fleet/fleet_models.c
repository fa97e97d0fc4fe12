#include "fleet/fleet_models.h"

#include "base/array.h"
#include "base/fnv.h"
#include "cluster/cluster.h"
#include "fleet/model_notice.h"
#include "serve/served_model_state.h"
#include "serve/serving.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tt_fleet_name_order(const struct tt_tensor_spec *specs, int32_t count, int32_t *out_order) {
    for (int32_t i = 0; i < count; i++) {
        int32_t at = i;
        for (; at > 0 && strcmp(specs[out_order[at - 1]].name, specs[i].name) > 0; at--)
            out_order[at] = out_order[at - 1];
        out_order[at] = i;
    }
}

/* ---- what the server has loaded ---- */

/* By name and version. */
struct list {
    const char *name; /* NULL: of any name */
    const struct tt_served_model **served;
    int64_t capacity;
    int32_t count;
    bool failed; /* out of memory */
};

static void add_served(void *context, const char *name, const char *version, const char *state,
                       const char *reason, const struct tt_served_model *served) {
    (void)version;
    (void)state;
    (void)reason;
    struct list *self = context;
    if (!served || served->ensemble || (self->name && strcmp(name, self->name) != 0))
        return;
    if (TT_ARRAY_RESERVE(self->served, &self->capacity, self->count + 1))
        self->served[self->count++] = served;
    else
        self->failed = true;
}

static int compare(const void *a, const void *b) {
    const struct tt_served_model *x = *(const struct tt_served_model *const *)a;
    const struct tt_served_model *y = *(const struct tt_served_model *const *)b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->version, y->version);
}

static enum tt_err read_list(struct list *self, struct tt_port *port, const char *name,
                             struct tt_error *why) {
    *self = (struct list){.name = name};
    tt_serving_index(port, add_served, self);
    if (self->failed) {
        free((void *)self->served);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    if (self->count > 1)
        qsort((void *)self->served, (size_t)self->count, sizeof(*self->served), compare);
    return TT_OK;
}

/* The versions from `first` on that have its name. */
static int32_t group_size(const struct list *self, int32_t first) {
    int32_t end = first + 1;
    while (end < self->count && strcmp(self->served[end]->name, self->served[first]->name) == 0)
        end++;
    return end - first;
}

/* The rows of the largest grant. What a policy by steps says of cells is less. */
static int32_t max_batch_of(const struct tt_served_model *served) {
    return served->cells ? served->signature->max_batch : served->step_model.max_batch;
}

/* ---- digests ---- */

/* With a byte behind it that no text has, so that texts do not run together. */
static void digest(uint64_t *self, const char *text) {
    static const uint8_t end = 0xff;
    *self = tt_fnv_add(tt_fnv_add(*self, text, strlen(text)), &end, 1);
}

static void digest_numbers(uint64_t *self, const struct tt_served_model *served) {
    const struct tt_signature *signature = served->signature;
    char numbers[96];
    snprintf(numbers, sizeof(numbers), "%d %d %" PRId64 " %d %d", max_batch_of(served),
             signature->batched, served->step_model.slo_ns, signature->input_count,
             signature->output_count);
    digest(self, numbers);
}

static void digest_spec(uint64_t *self, const struct tt_tensor_spec *spec) {
    const struct tt_shape *shape = &spec->shape;
    digest(self, spec->name);
    digest(self, tt_dtype_name(spec->dtype));
    for (int32_t i = 0; i < shape->rank; i++) {
        char dimension[32];
        snprintf(dimension, sizeof(dimension), "%" PRId64, shape->dims[i]);
        digest(self, dimension);
    }
}

static void digest_tensors(uint64_t *self, const struct tt_tensor_spec *specs, int32_t count) {
    int32_t order[TT_MAX_TENSORS];
    tt_fleet_name_order(specs, count, order);
    for (int32_t i = 0; i < count; i++)
        digest_spec(self, &specs[order[i]]);
}

/* The same on all nodes that serve the same: the order of tensors does not count. */
static uint64_t digest_group(const struct tt_served_model *const *versions, int32_t count) {
    uint64_t hash = TT_FNV_START;
    for (int32_t i = 0; i < count; i++) {
        const struct tt_signature *signature = versions[i]->signature;
        digest(&hash, versions[i]->name);
        digest(&hash, versions[i]->version);
        digest_numbers(&hash, versions[i]);
        digest_tensors(&hash, signature->inputs, signature->input_count);
        digest_tensors(&hash, signature->outputs, signature->output_count);
    }
    return hash;
}

/* Also the order of the tensors, which other nodes need not share. */
static uint64_t define(const struct tt_served_model *served) {
    const struct tt_signature *signature = served->signature;
    uint64_t hash = TT_FNV_START;
    digest(&hash, served->name);
    digest(&hash, served->version);
    digest_numbers(&hash, served);
    for (int32_t i = 0; i < signature->input_count; i++)
        digest_spec(&hash, &signature->inputs[i]);
    for (int32_t i = 0; i < signature->output_count; i++)
        digest_spec(&hash, &signature->outputs[i]);
    return hash ? hash : 1;
}

/* ---- the table ---- */

static int32_t find(const struct tt_fleet_models *self, const char *name, const char *version,
                    uint64_t digest) {
    for (int32_t i = 0; i < self->count; i++)
        if (self->models[i].digest == digest && strcmp(self->models[i].name, name) == 0 &&
            (!version || strcmp(self->models[i].version, version) == 0))
            return i;
    return -1;
}

static void free_model(struct tt_fleet_model *self) {
    free(self->name);
    free(self->version);
    tt_profile_free(self->profile);
    tt_profile_free(self->slowest);
    *self = (struct tt_fleet_model){.served = NULL};
}

/* Copies what the notice has. There is room. */
static enum tt_err add(struct tt_fleet_models *self, const struct tt_model_notice *notice,
                       struct tt_error *why) {
    tt_assert(self->count < self->capacity);
    int32_t number = self->count;
    struct tt_fleet_model *model = &self->models[number];
    model->name = strdup(notice->name);
    model->version = strdup(notice->version);
    enum tt_err err = model->name && model->version
                          ? tt_profile_new_table(notice->profile, &model->profile, why)
                          : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    if (err) {
        free_model(model);
        return err;
    }
    int32_t first = find(self, notice->name, NULL, notice->digest);
    model->digest = notice->digest;
    model->step = (struct tt_step){.name = model->name, .profile = model->profile};
    model->whole = (struct tt_step_model){.name = model->name,
                                          .step_count = 1,
                                          .steps = &model->step,
                                          .whole = model->profile,
                                          .slo_ns = notice->slo_ns,
                                          .max_batch = notice->max_batch};
    self->step_models[number] = &model->whole;
    self->groups[number] = (uint16_t)(first >= 0 ? first : number);
    self->count++;
    return TT_OK;
}

static enum tt_err check_room(const struct tt_fleet_models *self, const char *name, int32_t count,
                              int32_t max_batch, struct tt_error *why) {
    if (max_batch > self->max_rows)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "model '%s' has batches of %d rows; a model that comes to a cluster that "
                       "runs may have %d; restart the nodes to serve it",
                       name, max_batch, self->max_rows);
    if (self->count + count > self->capacity)
        return tt_fail(TT_ERR_BUSY, why,
                       "%d models have come to this node since it started; restart it to make "
                       "room for model '%s'",
                       TT_FLEET_NEW_MODELS, name);
    return TT_OK;
}

static void fill_notice(const struct tt_served_model *served, uint64_t digest,
                        struct tt_model_notice *out) {
    *out = (struct tt_model_notice){.digest = digest,
                                    .slo_ns = served->step_model.slo_ns,
                                    .max_batch = max_batch_of(served),
                                    .profile = (struct tt_profile *)served->step_model.whole};
    snprintf(out->name, sizeof(out->name), "%s", served->name);
    snprintf(out->version, sizeof(out->version), "%s", served->version);
}

/* The model is loaded here now. */
static void note_served(struct tt_fleet_model *self, const struct tt_served_model *served) {
    const struct tt_signature *signature = served->signature;
    self->served = served;
    self->definition = define(served);
    tt_fleet_name_order(signature->inputs, signature->input_count, self->inputs);
    tt_fleet_name_order(signature->outputs, signature->output_count, self->outputs);
}

/* As _add, of a model of this node, of which `tasks` run on a device at once. */
static enum tt_err add_own(struct tt_fleet_models *self, const struct tt_model_notice *notice,
                           int32_t tasks, struct tt_error *why) {
    struct tt_model_notice shared = *notice;
    enum tt_err err = tt_profile_new_shared(notice->profile, tasks, &shared.profile, why);
    if (err)
        return err;
    err = add(self, &shared, why);
    tt_profile_free(shared.profile);
    return err;
}

/* Versions that the server has; those that are not known come. */
static enum tt_err take_group(struct tt_fleet_models *self,
                              const struct tt_served_model *const *versions, int32_t count,
                              struct tt_error *why) {
    uint64_t hash = digest_group(versions, count);
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < count; i++) {
        struct tt_model_notice notice;
        int32_t number = find(self, versions[i]->name, versions[i]->version, hash);
        if (number < 0) {
            number = self->count;
            fill_notice(versions[i], hash, &notice);
            err = add_own(self, &notice, versions[i]->composes ? self->grants : 1, why);
        }
        if (!err)
            note_served(&self->models[number], versions[i]);
    }
    return err;
}

static enum tt_err allocate(struct tt_fleet_models *self, const struct list *list,
                            struct tt_error *why) {
    int32_t room = list->count + TT_FLEET_NEW_MODELS;
    if (list->count > TT_CLUSTER_MAX_MODELS)
        return tt_fail(TT_ERR_INVALID, why, "%d models serve; a cluster may have %d", list->count,
                       TT_CLUSTER_MAX_MODELS);
    self->capacity = room < TT_CLUSTER_MAX_MODELS ? room : TT_CLUSTER_MAX_MODELS;
    self->max_rows = TT_FLEET_NEW_ROWS;
    for (int32_t i = 0; i < list->count; i++)
        if (max_batch_of(list->served[i]) > self->max_rows)
            self->max_rows = max_batch_of(list->served[i]);
    self->models = calloc((size_t)self->capacity, sizeof(*self->models));
    self->step_models = calloc((size_t)self->capacity, sizeof(*self->step_models));
    self->groups = calloc((size_t)self->capacity, sizeof(*self->groups));
    bool made = self->models && self->step_models && self->groups;
    return made ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
}

enum tt_err tt_fleet_models_init(struct tt_fleet_models *self, struct tt_port *port, int32_t grants,
                                 struct tt_error *why) {
    struct list list;
    *self = (struct tt_fleet_models){.grants = grants};
    enum tt_err err = read_list(&list, port, NULL, why);
    if (err)
        return err;
    if (list.count == 0)
        err = tt_fail(TT_ERR_UNAVAILABLE, why,
                      "no model serves, so a node of a cluster has nothing to do");
    if (!err)
        err = allocate(self, &list, why);
    for (int32_t i = 0, size; !err && i < list.count; i += size) {
        size = group_size(&list, i);
        err = take_group(self, &list.served[i], size, why);
    }
    free((void *)list.served);
    if (err)
        tt_fleet_models_fini(self);
    return err;
}

void tt_fleet_models_fini(struct tt_fleet_models *self) {
    for (int32_t i = 0; i < self->count; i++)
        free_model(&self->models[i]);
    free(self->models);
    free((void *)self->step_models);
    free(self->groups);
    *self = (struct tt_fleet_models){.models = NULL};
}

int32_t tt_fleet_models_group(const struct tt_fleet_models *self, const char *name) {
    int32_t group = -1;
    for (int32_t i = 0; i < self->count; i++) {
        if (self->groups[i] != i || strcmp(self->models[i].name, name) != 0)
            continue;
        group = i;
        if (self->models[i].served)
            break;
    }
    return group;
}

int32_t tt_fleet_models_rival(const struct tt_fleet_models *self, int32_t model) {
    const struct tt_fleet_model *own = &self->models[model];
    for (int32_t i = 0; i < self->count; i++)
        if (self->groups[i] == i && self->models[i].digest != own->digest &&
            strcmp(self->models[i].name, own->name) == 0)
            return i;
    return -1;
}

/* ---- models that come ---- */

void tt_fleet_models_notice(const struct tt_fleet_models *self, int32_t model,
                            struct tt_model_notice *out_notice) {
    const struct tt_fleet_model *own = &self->models[model];
    *out_notice = (struct tt_model_notice){.number = (uint16_t)model,
                                           .digest = own->digest,
                                           .slo_ns = own->whole.slo_ns,
                                           .max_batch = own->whole.max_batch,
                                           .is_served = own->served != NULL,
                                           .profile = own->profile};
    snprintf(out_notice->name, sizeof(out_notice->name), "%s", own->name);
    snprintf(out_notice->version, sizeof(out_notice->version), "%s", own->version);
}

enum tt_err tt_fleet_models_learn(struct tt_fleet_models *self,
                                  const struct tt_model_notice *notice, const char *origin,
                                  int32_t *out_number, struct tt_error *why) {
    int32_t number = find(self, notice->name, notice->version, notice->digest);
    if (number < 0) {
        enum tt_err err = check_room(self, notice->name, 1, notice->max_batch, why);
        if (!err)
            err = add(self, notice, why);
        if (err)
            return err;
        number = self->count - 1;
        self->models[number].origin = origin;
    }
    *out_number = number;
    return TT_OK;
}

/* Of a profile whose batches or lengths may be others. */
static int64_t latency_by(const struct tt_profile *profile, int32_t batch, int32_t length) {
    int32_t most = batch < profile->max_batch ? batch : profile->max_batch;
    return tt_profile_latency(profile, most, length);
}

int32_t tt_fleet_models_pace(const struct tt_fleet_models *self, int32_t model,
                             const struct tt_model_notice *notice) {
    const struct tt_profile *own = self->models[model].profile;
    int64_t pace = 0;
    for (int32_t l = 0; l < own->length_count; l++)
        for (int32_t b = 1; b <= own->max_batch; b++) {
            int64_t here = tt_profile_latency(own, b, own->lengths[l]);
            int64_t there = latency_by(notice->profile, b, own->lengths[l]);
            int64_t ratio = here <= 0                  ? 1000
                            : there > INT64_MAX / 1000 ? INT32_MAX
                                                       : there * 1000 / here;
            pace = ratio > pace ? ratio : pace;
        }
    return pace < INT32_MAX ? (int32_t)pace : INT32_MAX;
}

void tt_fleet_models_note_pace(struct tt_fleet_models *self, int32_t model,
                               const struct tt_model_notice *notice) {
    struct tt_fleet_model *own = &self->models[model];
    struct tt_error ignored;
    if (!own->slowest && tt_fleet_models_pace(self, model, notice) <= 1000)
        return;
    if (!own->slowest && tt_profile_new_table(own->profile, &own->slowest, &ignored)) {
        own->slowest = NULL; /* out of memory: it counts when the next notice comes */
        return;
    }
    struct tt_profile *slowest = own->slowest;
    for (int32_t l = 0; l < slowest->length_count; l++)
        for (int32_t b = 1; b <= slowest->max_batch; b++) {
            int64_t *cell = &slowest->latency_ns[(int64_t)l * (slowest->max_batch + 1) + b];
            int64_t there = latency_by(notice->profile, b, slowest->lengths[l]);
            *cell = there > *cell ? there : *cell;
        }
    if (notice->profile->alpha_ns > slowest->alpha_ns)
        slowest->alpha_ns = notice->profile->alpha_ns;
    if (notice->profile->beta_ns > slowest->beta_ns)
        slowest->beta_ns = notice->profile->beta_ns;
}

static size_t table_bytes(const struct tt_profile *profile) {
    return (size_t)profile->length_count * ((size_t)profile->max_batch + 1) *
           sizeof(*profile->latency_ns);
}

bool tt_fleet_models_has_slower(const struct tt_fleet_models *self) {
    for (int32_t i = 0; i < self->count; i++) {
        const struct tt_fleet_model *model = &self->models[i];
        if (model->slowest && memcmp(model->slowest->latency_ns, model->profile->latency_ns,
                                     table_bytes(model->profile)) != 0)
            return true;
    }
    return false;
}

void tt_fleet_models_adopt_slowest(struct tt_fleet_models *self) {
    for (int32_t i = 0; i < self->count; i++) {
        struct tt_fleet_model *model = &self->models[i];
        if (!model->slowest)
            continue;
        memcpy(model->profile->latency_ns, model->slowest->latency_ns, table_bytes(model->profile));
        model->profile->alpha_ns = model->slowest->alpha_ns;
        model->profile->beta_ns = model->slowest->beta_ns;
    }
}

enum tt_err tt_fleet_models_take(struct tt_fleet_models *self, struct tt_port *port,
                                 const char *name, int32_t *out_group, struct tt_error *why) {
    struct list list;
    enum tt_err err = read_list(&list, port, name, why);
    if (err)
        return err;
    int32_t max_batch = 0;
    for (int32_t i = 0; i < list.count; i++)
        if (list.served[i]->step_model.max_batch > max_batch)
            max_batch = list.served[i]->step_model.max_batch;
    if (list.count == 0)
        err = tt_fail(TT_ERR_UNAVAILABLE, why, "model '%s' has no version that a cluster can serve",
                      name);
    if (!err)
        err = check_room(self, name, list.count, max_batch, why);
    if (!err)
        err = take_group(self, list.served, list.count, why);
    if (!err)
        *out_group = find(self, name, NULL, digest_group(list.served, list.count));
    free((void *)list.served);
    return err;
}

/* ---- loading again ---- */

/* True if the versions are those of the group, as it was when it was loaded before. */
static bool is_group(const struct tt_fleet_models *self, int32_t group, const struct list *list) {
    int32_t size = 0;
    for (int32_t i = group; i < self->count; i++)
        size += self->groups[i] == group;
    if (list->count != size ||
        digest_group(list->served, list->count) != self->models[group].digest)
        return false;
    for (int32_t i = 0; i < list->count; i++) {
        int32_t number =
            find(self, list->served[i]->name, list->served[i]->version, self->models[group].digest);
        uint64_t known = number >= 0 ? self->models[number].definition : 0;
        if (number < 0 || (known != 0 && known != define(list->served[i])))
            return false;
    }
    return true;
}

enum tt_err tt_fleet_models_loaded(struct tt_fleet_models *self, struct tt_port *port,
                                   int32_t group, struct tt_error *why) {
    struct list list;
    const struct tt_fleet_model *model = &self->models[group];
    enum tt_err err = read_list(&list, port, model->name, why);
    if (err)
        return err;
    bool is_same = is_group(self, group, &list);
    if (is_same) /* else requests that are under way still need what was loaded */
        tt_fleet_models_unloaded(self, group);
    for (int32_t i = 0; is_same && i < list.count; i++) {
        int32_t number = find(self, model->name, list.served[i]->version, model->digest);
        note_served(&self->models[number], list.served[i]);
    }
    free((void *)list.served);
    if (is_same)
        return TT_OK;
    if (model->origin && model->definition == 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "model '%s' has other versions, inputs, outputs or limits than at node %s",
                       model->name, model->origin);
    return tt_fail(
        TT_ERR_INVALID, why,
        "model '%s' has other versions, inputs, outputs or limits than when it was loaded "
        "last; unload it, then load it",
        model->name);
}

void tt_fleet_models_unloaded(struct tt_fleet_models *self, int32_t group) {
    for (int32_t i = 0; i < self->count; i++)
        if (strcmp(self->models[i].name, self->models[group].name) == 0)
            self->models[i].served = NULL;
}

int32_t tt_fleet_models_find(const struct tt_fleet_models *self,
                             const struct tt_served_model *served) {
    for (int32_t i = 0; i < self->count; i++)
        if (self->models[i].served == served)
            return i;
    return -1;
}

void tt_fleet_models_check(const struct tt_fleet_models *self) {
    tt_assert(self->count > 0 && self->count <= self->capacity);
    for (int32_t i = 0; i < self->count; i++) {
        const struct tt_fleet_model *model = &self->models[i];
        tt_assert(self->step_models[i] == &model->whole && model->whole.whole == model->profile);
        tt_assert(self->groups[i] <= i && self->groups[self->groups[i]] == self->groups[i]);
        tt_assert(model->digest == self->models[self->groups[i]].digest);
        tt_assert(model->whole.max_batch <= self->max_rows);
        tt_assert(!model->served || model->definition != 0);
        tt_assert(find(self, model->name, model->version, model->digest) == i);
    }
}
