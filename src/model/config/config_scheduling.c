#include "base/instant.h"
#include "model/config/config_internal.h"

#include <stdlib.h>

/* Microseconds to nanoseconds; TT_NEVER if they do not fit. */
static int64_t ns_of_us(uint64_t us) {
    return us > (uint64_t)INT64_MAX / 1000 ? TT_NEVER : (int64_t)us * 1000;
}

static struct tt_queue_rule rule_of(const Inference__ModelQueuePolicy *policy) {
    return (struct tt_queue_rule){
        .timeout_ns = ns_of_us(policy->default_timeout_microseconds),
        .max_count = policy->max_queue_size,
        .delay_late =
            policy->timeout_action == INFERENCE__MODEL_QUEUE_POLICY__TIMEOUT_ACTION__DELAY,
        .allow_override = policy->allow_timeout_override,
    };
}

static int compare_sizes(const void *left, const void *right) {
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

static void take_preferred(struct tt_config_work *work,
                           const Inference__ModelDynamicBatching *dynamic) {
    struct tt_model_batching *batching = &work->config->batching;
    int32_t max_batch = work->config->message->max_batch_size;
    if (dynamic->n_preferred_batch_size > TT_MODEL_MAX_PREFERRED) {
        tt_config_problem(work, dynamic, "preferred_batch_size",
                          "%zu preferred batch sizes; the maximum is %d",
                          dynamic->n_preferred_batch_size, TT_MODEL_MAX_PREFERRED);
        return;
    }
    for (size_t i = 0; i < dynamic->n_preferred_batch_size; i++) {
        int32_t size = dynamic->preferred_batch_size[i];
        if (size < 1 || size > max_batch)
            tt_config_problem(work, dynamic, "preferred_batch_size",
                              "the preferred batch size %d is not between 1 and max_batch_size "
                              "(%d)",
                              size, max_batch);
        batching->preferred[batching->preferred_count++] = size;
    }
    qsort(batching->preferred, (size_t)batching->preferred_count, sizeof(*batching->preferred),
          compare_sizes);
}

static void take_priorities(struct tt_config_work *work,
                            const Inference__ModelDynamicBatching *dynamic) {
    struct tt_model_batching *batching = &work->config->batching;
    uint64_t levels = dynamic->priority_levels, normal = dynamic->default_priority_level;
    if (levels > TT_MODEL_MAX_PRIORITIES) {
        tt_config_problem(work, dynamic, "priority_levels",
                          "%llu priority levels; the maximum is %d", (unsigned long long)levels,
                          TT_MODEL_MAX_PRIORITIES);
        return;
    }
    if ((levels > 0 && (normal < 1 || normal > levels)) || (levels == 0 && normal > 0)) {
        tt_config_problem(work, dynamic, "default_priority_level",
                          "default_priority_level is %llu, with %llu priority_levels; it is one "
                          "of them, from 1",
                          (unsigned long long)normal, (unsigned long long)levels);
        return;
    }
    batching->priority_count = (int32_t)levels;
    batching->default_priority = (int32_t)normal;
    struct tt_queue_rule rule = {0};
    batching->has_rules = dynamic->default_queue_policy || dynamic->n_priority_queue_policy > 0;
    if (dynamic->default_queue_policy)
        rule = rule_of(dynamic->default_queue_policy);
    for (uint64_t level = 0; level <= levels; level++)
        batching->rules[level] = rule;
    for (size_t i = 0; i < dynamic->n_priority_queue_policy; i++) {
        const Inference__ModelDynamicBatching__PriorityQueuePolicyEntry *entry =
            dynamic->priority_queue_policy[i];
        if (entry->key < 1 || entry->key > levels)
            tt_config_problem(work, entry, "key",
                              "a queue policy for priority level %llu, with %llu priority_levels",
                              (unsigned long long)entry->key, (unsigned long long)levels);
        else if (entry->value)
            batching->rules[entry->key] = rule_of(entry->value);
    }
}

static void take_dynamic(struct tt_config_work *work,
                         const Inference__ModelDynamicBatching *dynamic) {
    struct tt_model_batching *batching = &work->config->batching;
    if (work->config->message->max_batch_size < 1)
        tt_config_remark(work, work->config->message, "dynamic_batching",
                         "dynamic_batching has no effect: max_batch_size is 0, so each request "
                         "runs alone");
    batching->dynamic = work->config->message->max_batch_size > 0;
    batching->max_delay_ns = ns_of_us(dynamic->max_queue_delay_microseconds);
    batching->preserve_ordering = dynamic->preserve_ordering;
    take_preferred(work, dynamic);
    take_priorities(work, dynamic);
}

void tt_config_complete_scheduling(struct tt_config_work *work) {
    Inference__ModelConfig *message = work->config->message;
    switch (message->scheduling_choice_case) {
    case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING:
        tt_config_problem(work, message, "sequence_batching",
                          "sequence batching cannot be served; remove it, or serve the model with "
                          "its state as inputs and outputs");
        return;
    case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_ENSEMBLE_SCHEDULING:
        tt_config_take_ensemble(work);
        return;
    case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING: break;
    case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE__NOT_SET:
    default:
        if (message->max_batch_size <= 1)
            return;
        message->dynamic_batching =
            tt_config_new_message(work, &inference__model_dynamic_batching__descriptor);
        if (!message->dynamic_batching)
            return;
        message->scheduling_choice_case =
            INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING;
    }
    take_dynamic(work, message->dynamic_batching);
}

static void add_default_group(struct tt_config_work *work) {
    Inference__ModelConfig *message = work->config->message;
    Inference__ModelInstanceGroup **groups = calloc(1, sizeof(*groups));
    Inference__ModelInstanceGroup *group =
        tt_config_new_message(work, &inference__model_instance_group__descriptor);
    if (!groups || !group) {
        free(groups);
        free(group);
        work->no_memory = true;
        return;
    }
    tt_config_set_string(work, &group->name, message->name);
    groups[0] = group;
    message->instance_group = groups;
    message->n_instance_group = 1;
}

static void take_group(struct tt_config_work *work, Inference__ModelInstanceGroup *group) {
    struct tt_model_config *config = work->config;
    bool on_cpu = group->kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU;
    if (group->count == 0)
        group->count = 1;
    if (group->count < 0 || group->count > 1024)
        tt_config_problem(work, group, "count", "%d instances; 1 to 1024 are possible",
                          group->count);
    if (on_cpu && group->n_gpus > 0)
        tt_config_problem(work, group, "gpus", "a group of KIND_CPU cannot name GPUs");
    if (group->n_gpus > TT_MODEL_MAX_GPUS) {
        tt_config_problem(work, group, "gpus", "%zu GPUs; the maximum is %d", group->n_gpus,
                          TT_MODEL_MAX_GPUS);
        return;
    }
    if ((group->kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU || group->n_gpus > 0) &&
        config->engine && !config->engine->uses_gpus && !config->on_gpu)
        tt_config_remark(work, group, group->n_gpus > 0 ? "gpus" : "kind",
                         "engine '%s' uses no GPU: the group runs on the CPU",
                         config->engine->name);
    if (group->rate_limiter)
        tt_config_remark(work, group, "rate_limiter", "rate_limiter has no effect in Tutti");
    if (group->n_secondary_devices > 0)
        tt_config_remark(work, group, "secondary_devices",
                         "secondary_devices have no effect in Tutti");
    if (group->passive) {
        tt_config_remark(work, group, "passive", "a passive group is not started");
        return;
    }
    struct tt_instance_group *out = &config->groups[config->group_count++];
    *out = (struct tt_instance_group){
        .kind = on_cpu                                                           ? TT_INSTANCE_CPU
                : group->kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU ? TT_INSTANCE_GPU
                                                                                 : TT_INSTANCE_AUTO,
        .count = group->count,
        .gpu_count = (int32_t)group->n_gpus,
    };
    for (size_t i = 0; i < group->n_gpus; i++) {
        if (group->gpus[i] < 0)
            tt_config_problem(work, group, "gpus", "GPU %d; they are numbered from 0",
                              group->gpus[i]);
        out->gpus[i] = group->gpus[i];
    }
}

void tt_config_complete_instances(struct tt_config_work *work) {
    Inference__ModelConfig *message = work->config->message;
    if (tt_config_is_ensemble(message))
        return;
    work->config->has_groups = message->n_instance_group > 0;
    if (message->n_instance_group == 0)
        add_default_group(work);
    if (message->n_instance_group > TT_MODEL_MAX_GROUPS) {
        tt_config_problem(work, message, "instance_group", "%zu instance groups; the maximum is %d",
                          message->n_instance_group, TT_MODEL_MAX_GROUPS);
        return;
    }
    for (size_t i = 0; i < message->n_instance_group; i++)
        take_group(work, message->instance_group[i]);
}
