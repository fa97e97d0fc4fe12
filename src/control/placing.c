#include "control/placing.h"

#include "policy/auto_policy.h"
#include "policy/default_policy.h"
#include "serve/domain.h"

#include <stdlib.h>
#include <string.h>

static const char *option_of(const struct tt_placing *self, const char *key) {
    return tt_options_value(key, self->options, self->policy.option_count);
}

bool tt_placing_has(const struct tt_placing *self, struct tt_option option) {
    return tt_options_have(option, self->options, self->policy.option_count);
}

const struct tt_policy_kind *tt_placing_kind(const struct tt_placing *self) {
    return tt_policy_find(self->policy.name);
}

/* ---- policies ---- */

/* Adds the option unless the configuration states it. */
static void add_option(struct tt_placing *self, const char *key, const char *value) {
    if (option_of(self, key) || self->policy.option_count == TT_MAX_OPTIONS)
        return;
    tt_assert(value != NULL);
    self->options[self->policy.option_count++] = (struct tt_option){.key = key, .value = value};
}

bool tt_placing_composes(const struct tt_repository_model *model) {
    struct tt_placing placing = {0};
    tt_placing_choose(&placing, model, NULL);
    const struct tt_policy_kind *kind = tt_placing_kind(&placing);
    return kind && kind->traits.composes;
}

void tt_placing_choose(struct tt_placing *self, const struct tt_repository_model *model,
                       const struct tt_policy_candidate *chosen) {
    tt_assert(!self->policy.name); /* a placing is made once */
    const struct tt_model_settings *settings = model->settings;
    const Tutti__ModelPolicy *wanted = settings->message->policy;
    struct tt_policy_facts facts = {.is_cells = tt_model_settings_has_cells(settings),
                                    .has_objective = settings->slo_ns > 0,
                                    .has_dynamic_batching = model->config->batching.dynamic,
                                    .shapes_vary = tt_signature_varies(&model->config->signature),
                                    .is_padded = settings->pad};
    self->is_auto = tt_policy_is_auto(settings->policy);
    const char *named = *settings->policy ? settings->policy : NULL;
    if (self->is_auto)
        named = chosen ? chosen->policy->name : NULL;
    self->policy.name = named ? named : tt_policy_default(&facts)->name;
    self->policy.options = self->options;
    for (size_t i = 0; wanted && !self->is_auto && i < wanted->n_option && i < TT_MAX_OPTIONS; i++)
        self->options[self->policy.option_count++] =
            (struct tt_option){.key = wanted->option[i]->key, .value = wanted->option[i]->value};
    for (int32_t i = 0; self->is_auto && chosen && i < chosen->option_count; i++)
        add_option(self, chosen->options[i].key, chosen->options[i].value);
    const struct tt_policy_kind *kind = tt_placing_kind(self);
    for (int32_t i = 0; kind && i < kind->serving.default_count; i++)
        add_option(self, kind->serving.defaults[i].key, kind->serving.defaults[i].value);
}

void tt_placing_impose(struct tt_placing *self, const struct tt_serving_policy *policy) {
    tt_assert(!self->policy.name);
    tt_assert(policy->name != NULL);
    tt_assert(policy->option_count <= TT_MAX_OPTIONS);
    self->is_imposed = true;
    self->policy = *policy;
    self->policy.options = self->options;
    for (int32_t i = 0; i < policy->option_count; i++)
        self->options[i] = policy->options[i];
}

enum tt_err tt_placing_find_workers(struct tt_placing *self,
                                    const struct tt_find_workers_options *options,
                                    struct tt_error *why) {
    const struct tt_policy_kind *kind = tt_placing_kind(self);
    if (self->is_imposed || !kind || !tt_placing_has(self, kind->serving.workers.measured) ||
        option_of(self, kind->serving.workers.plans))
        return TT_OK;
    struct tt_find_workers_options known = *options;
    known.given = option_of(self, kind->serving.workers.sizes);
    enum tt_err err = tt_find_workers(&known, &self->found, why);
    if (err)
        return err == TT_ERR_NOT_FOUND ? TT_OK : err;
    add_option(self, kind->serving.workers.sizes, self->found.workers);
    add_option(self, kind->serving.workers.plans, self->found.configurations);
    return TT_OK;
}

int32_t tt_placing_workers(const struct tt_placing *self) {
    const struct tt_policy_kind *kind = tt_placing_kind(self);
    const char *key = kind ? kind->serving.workers.sizes : NULL;
    if (!key)
        return 0;
    int32_t sizes[1];
    int32_t count = tt_options_sizes(key, self->options, self->policy.option_count, sizes, 1);
    return count > 0 && count <= TT_DOMAIN_MAX_EXECUTORS ? count : 0;
}

int32_t tt_placing_instances(const struct tt_model_config *config) {
    int32_t count = 0;
    if (!config->has_groups && config->engine && config->engine->has_own_instances)
        return 1;
    for (int32_t i = 0; config->has_groups && i < config->group_count; i++) {
        const struct tt_instance_group *group = &config->groups[i];
        count += group->count * (group->gpu_count > 0 ? group->gpu_count : 1);
    }
    return count < TT_DOMAIN_MAX_EXECUTORS ? count : TT_DOMAIN_MAX_EXECUTORS;
}

static bool same_copies(const struct tt_copy_engine *a, const struct tt_copy_engine *b) {
    return a->fixed_ns == b->fixed_ns && a->bytes_per_s == b->bytes_per_s;
}

static bool same_perturbations(const struct tt_model_emulation *a,
                               const struct tt_model_emulation *b) {
    if (a->perturbation_count != b->perturbation_count)
        return false;
    for (int32_t i = 0; i < a->perturbation_count; i++) {
        const struct tt_perturbation *x = &a->perturbations[i], *y = &b->perturbations[i];
        if (x->from_at != y->from_at || x->until_at != y->until_at ||
            x->speed_permille != y->speed_permille)
            return false;
    }
    return true;
}

/* Each model has its own bytes. */
static bool same_devices(const struct tt_model_emulation *a, const struct tt_model_emulation *b) {
    return a->is_given == b->is_given && a->device_executors == b->device_executors &&
           same_copies(&a->copy_in, &b->copy_in) && same_copies(&a->copy_out, &b->copy_out) &&
           a->delay.control_ns == b->delay.control_ns && a->delay.data_ns == b->delay.data_ns &&
           same_perturbations(a, b);
}

static bool same_device(const struct tt_model_device *a, const struct tt_model_device *b) {
    return a->is_given == b->is_given && a->copies_whole == b->copies_whole &&
           a->is_cuda == b->is_cuda && a->gpu == b->gpu && a->memory_bytes == b->memory_bytes;
}

bool tt_placing_same(const struct tt_placing *a, const struct tt_placing *b) {
    return a->is_auto == b->is_auto && same_devices(&a->emulation, &b->emulation) &&
           same_device(&a->device, &b->device) && strcmp(a->policy.name, b->policy.name) == 0 &&
           tt_options_same(a->options, a->policy.option_count, b->options, b->policy.option_count);
}

enum tt_err tt_placing_copy(const struct tt_placing *from, struct tt_placing *out_copy) {
    tt_assert(from != out_copy);
    tt_assert(from->policy.options == from->options); /* it was not moved */
    *out_copy = (struct tt_placing){.is_imposed = from->is_imposed,
                                    .is_auto = from->is_auto,
                                    .emulation = from->emulation,
                                    .device = from->device,
                                    .policy = {.name = strdup(from->policy.name),
                                               .depth = from->policy.depth,
                                               .devices = from->policy.devices}};
    out_copy->policy.options = out_copy->options;
    bool good = out_copy->policy.name != NULL;
    for (int32_t i = 0; good && i < from->policy.option_count; i++) {
        struct tt_option *option = &out_copy->options[out_copy->policy.option_count++];
        option->key = strdup(from->options[i].key);
        option->value = strdup(from->options[i].value);
        good = option->key && option->value;
    }
    return good ? TT_OK : TT_ERR_NO_MEMORY;
}

void tt_placing_fini(struct tt_placing *self) {
    for (int32_t i = 0; i < self->policy.option_count; i++) {
        free((char *)self->options[i].key);
        free((char *)self->options[i].value);
    }
    free((char *)self->policy.name);
    *self = (struct tt_placing){0};
}
