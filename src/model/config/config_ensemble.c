/* Reads ensemble_scheduling, and finds what is wrong with it without knowing the models. */
#include "model/config/config_internal.h"
#include "model/config/ensemble_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef Inference__ModelEnsembling__Step step_message;

/* It has no engine; the fields answer for it where code asks every model's engine. */
static const struct tt_engine_traits ensemble_traits = {
    .name = "ensemble", .platform = "ensemble", .emulates = true};

bool tt_config_is_ensemble(const Inference__ModelConfig *message) {
    return message->scheduling_choice_case ==
               INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_ENSEMBLE_SCHEDULING ||
           strcmp(message->platform, "ensemble") == 0;
}

void tt_config_claim_ensemble(struct tt_config_work *work) {
    Inference__ModelConfig *message = work->config->message;
    bool is_scheduled = message->scheduling_choice_case ==
                        INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_ENSEMBLE_SCHEDULING;
    int32_t problems_before = work->findings->problem_count;
    if (!is_scheduled)
        tt_config_problem(work, message, "platform",
                          "platform 'ensemble' needs ensemble_scheduling, with a step per model");
    if (tt_config_is_empty(message->platform))
        tt_config_set_string(work, &message->platform, "ensemble");
    else if (strcmp(message->platform, "ensemble") != 0)
        tt_config_problem(work, message, "platform",
                          "platform '%s' does not go with ensemble_scheduling; write \"ensemble\"",
                          message->platform);
    if (!tt_config_is_empty(message->backend))
        tt_config_problem(work, message, "backend",
                          "an ensemble has no backend: its steps' models run; leave it out");
    if (work->findings->problem_count == problems_before)
        work->config->engine = &ensemble_traits;
    const struct {
        const char *field;
        bool set;
    } ignored[] = {
        {"instance_group", message->n_instance_group > 0},
        {"model_warmup", message->n_model_warmup > 0},
    };
    for (size_t i = 0; i < TT_COUNT(ignored); i++)
        if (ignored[i].set)
            tt_config_remark(work, message, ignored[i].field,
                             "%s has no effect in an ensemble; write it for its steps' models",
                             ignored[i].field);
}

void tt_ensemble_config_free(struct tt_ensemble_config *take_self) {
    if (!take_self)
        return;
    for (int32_t s = 0; take_self->steps && s < take_self->step_count; s++) {
        free(take_self->steps[s].inputs);
        free(take_self->steps[s].outputs);
    }
    free(take_self->steps);
    free(take_self->tensors);
    free(take_self);
}

/* ---- tensors ---- */

static int32_t find_tensor(const struct tt_ensemble_config *self, const char *name) {
    for (int32_t t = 0; t < self->tensor_count; t++)
        if (strcmp(self->tensors[t].name, name) == 0)
            return t;
    return -1;
}

/* -1: there are too many, as a problem says. */
static int32_t add_tensor(struct tt_config_work *work, const char *name, int32_t step,
                          int32_t input) {
    struct tt_ensemble_config *self = work->config->ensemble;
    if (self->tensor_count == TT_ENSEMBLE_CONFIG_TENSORS) {
        tt_config_problem(work, work->config->message, "ensemble_scheduling",
                          "more than %d tensors go between the steps", TT_ENSEMBLE_CONFIG_TENSORS);
        return -1;
    }
    self->tensors[self->tensor_count] =
        (struct tt_ensemble_tensor){.name = name, .step = step, .input = input};
    return self->tensor_count++;
}

/* Sets where the tensors come from; `step->outputs` is filled. */
static void take_outputs(struct tt_config_work *work, int32_t s, const step_message *message) {
    struct tt_ensemble_config *self = work->config->ensemble;
    struct tt_ensemble_config_step *step = &self->steps[s];
    if (message->n_output_map == 0)
        tt_config_problem(work, message, "output_map",
                          "step %d (model '%s') has no output_map: nothing would read its outputs",
                          step->number, step->model);
    for (size_t m = 0; m < message->n_output_map; m++) {
        const Inference__ModelEnsembling__Step__OutputMapEntry *entry = message->output_map[m];
        int32_t known = find_tensor(self, entry->value);
        if (tt_config_is_empty(entry->key) || tt_config_is_empty(entry->value))
            tt_config_problem(work, entry, "key",
                              "step %d (model '%s'): an entry of output_map needs key, an output "
                              "of the model, and value, a tensor of the ensemble",
                              step->number, step->model);
        else if (known >= 0 && self->tensors[known].step < 0)
            tt_config_problem(work, entry, "value",
                              "step %d (model '%s') makes tensor '%s', which is an input of the "
                              "ensemble",
                              step->number, step->model, entry->value);
        else if (known >= 0)
            tt_config_problem(work, entry, "value",
                              "step %d (model '%s') makes tensor '%s', which step %d makes too",
                              step->number, step->model, entry->value,
                              self->steps[self->tensors[known].step].number);
        else
            known = add_tensor(work, entry->value, s, -1);
        step->outputs[step->output_count++] =
            (struct tt_ensemble_map){.name = entry->key, .tensor = known};
    }
}

/* After the outputs of all steps. */
static void take_inputs(struct tt_config_work *work, int32_t s, const step_message *message) {
    struct tt_ensemble_config *self = work->config->ensemble;
    struct tt_ensemble_config_step *step = &self->steps[s];
    if (message->n_input_map == 0)
        tt_config_problem(work, message, "input_map",
                          "step %d (model '%s') has no input_map, which names a tensor for each "
                          "input of the model",
                          step->number, step->model);
    for (size_t m = 0; m < message->n_input_map; m++) {
        const Inference__ModelEnsembling__Step__InputMapEntry *entry = message->input_map[m];
        int32_t known = find_tensor(self, entry->value);
        if (tt_config_is_empty(entry->key) || known < 0)
            tt_config_problem(work, entry, "value",
                              "input '%s' of step %d (model '%s') reads tensor '%s', which is no "
                              "input of the ensemble, and no step makes it",
                              entry->key, step->number, step->model, entry->value);
        for (int32_t other = 0; other < step->input_count; other++)
            if (strcmp(step->inputs[other].name, entry->key) == 0)
                tt_config_problem(work, entry, "key",
                                  "step %d (model '%s') has input '%s' twice in its input_map",
                                  step->number, step->model, entry->key);
        step->inputs[step->input_count++] =
            (struct tt_ensemble_map){.name = entry->key, .tensor = known};
    }
}

/* ---- steps ---- */

static void take_name(struct tt_config_work *work, struct tt_ensemble_config_step *step,
                      const step_message *message) {
    step->model = message->model_name;
    if (tt_config_is_empty(message->model_name))
        tt_config_problem(work, message, "model_name", "step %d has no model_name", step->number);
    else if (strcmp(message->model_name, work->config->message->name) == 0)
        tt_config_problem(work, message, "model_name",
                          "step %d names the ensemble itself, '%s': it would never end",
                          step->number, message->model_name);
    if (message->model_version < -1)
        tt_config_problem(work, message, "model_version",
                          "step %d (model '%s') has version %lld; a version is 1 or more, or -1 "
                          "for the highest",
                          step->number, step->model, (long long)message->model_version);
    else if (message->model_version > 0)
        snprintf(step->version, sizeof(step->version), "%lld", (long long)message->model_version);
    if (!tt_config_is_empty(message->model_namespace))
        tt_config_problem(work, message, "model_namespace",
                          "step %d (model '%s') has a model_namespace; names of models are unique "
                          "here, leave it out",
                          step->number, step->model);
}

static bool take_steps(struct tt_config_work *work, const Inference__ModelEnsembling *message) {
    struct tt_ensemble_config *self = work->config->ensemble;
    for (int32_t s = 0; s < self->step_count; s++) {
        struct tt_ensemble_config_step *step = &self->steps[s];
        const step_message *from = message->step[s];
        step->number = s + 1;
        step->inputs = calloc(from->n_input_map + 1, sizeof(*step->inputs));
        step->outputs = calloc(from->n_output_map + 1, sizeof(*step->outputs));
        if (!step->inputs || !step->outputs)
            return false;
        take_name(work, step, from);
        take_outputs(work, s, from);
    }
    for (int32_t s = 0; s < self->step_count; s++)
        take_inputs(work, s, message->step[s]);
    return true;
}

/* A step that can come next: all tensors that it reads are there. -1: none. */
static int32_t next_step(const struct tt_ensemble_config *self, const bool *is_placed) {
    for (int32_t s = 0; s < self->step_count; s++) {
        bool ready = !is_placed[s];
        for (int32_t m = 0; ready && m < self->steps[s].input_count; m++) {
            int32_t from = self->tensors[self->steps[s].inputs[m].tensor].step;
            ready = from < 0 || is_placed[from];
        }
        if (ready)
            return s;
    }
    return -1;
}

/* Names, of each step that waits for itself, a tensor that it waits for. */
static void report_circle(struct tt_config_work *work, const bool *is_placed) {
    const struct tt_ensemble_config *self = work->config->ensemble;
    const Inference__ModelEnsembling *message = work->config->message->ensemble_scheduling;
    for (int32_t s = 0; s < self->step_count; s++) {
        const struct tt_ensemble_config_step *step = &self->steps[s];
        for (int32_t m = 0; !is_placed[s] && m < step->input_count; m++) {
            const struct tt_ensemble_tensor *tensor = &self->tensors[step->inputs[m].tensor];
            if (tensor->step < 0 || is_placed[tensor->step])
                continue;
            tt_config_problem(work, message->step[s], "input_map",
                              "step %d (model '%s') waits for tensor '%s' of step %d, which waits "
                              "for it in turn: the steps go in a circle",
                              step->number, step->model, tensor->name,
                              self->steps[tensor->step].number);
            break;
        }
    }
}

/* Puts the steps into an order in which each reads only earlier ones. */
static bool put_in_order(struct tt_config_work *work) {
    struct tt_ensemble_config *self = work->config->ensemble;
    bool is_placed[TT_ENSEMBLE_CONFIG_STEPS] = {false};
    int32_t place_of[TT_ENSEMBLE_CONFIG_STEPS];
    struct tt_ensemble_config_step *ordered = calloc((size_t)self->step_count, sizeof(*ordered));
    if (!ordered)
        return false;
    for (int32_t i = 0; i < self->step_count; i++) {
        int32_t s = next_step(self, is_placed);
        if (s < 0) {
            report_circle(work, is_placed);
            free(ordered);
            return true;
        }
        is_placed[s] = true;
        place_of[s] = i;
        ordered[i] = self->steps[s];
    }
    free(self->steps);
    self->steps = ordered;
    for (int32_t t = 0; t < self->tensor_count; t++)
        if (self->tensors[t].step >= 0)
            self->tensors[t].step = place_of[self->tensors[t].step];
    return true;
}

/* ---- the whole ---- */

static void take_whole_outputs(struct tt_config_work *work) {
    struct tt_ensemble_config *self = work->config->ensemble;
    const Inference__ModelConfig *message = work->config->message;
    for (size_t i = 0; i < message->n_output && i < TT_MAX_TENSORS; i++) {
        const char *name = message->output[i]->name;
        self->outputs[i] = find_tensor(self, name);
        if (self->outputs[i] < 0 || self->tensors[self->outputs[i]].step < 0)
            tt_config_problem(work, message->output[i], "name",
                              "no step makes output '%s' of the ensemble: no output_map has it as "
                              "a value",
                              name);
    }
}

static void note_unread(struct tt_config_work *work) {
    const struct tt_ensemble_config *self = work->config->ensemble;
    const Inference__ModelConfig *message = work->config->message;
    for (int32_t t = 0; t < self->tensor_count; t++) {
        bool is_read = self->tensors[t].step >= 0;
        for (int32_t s = 0; s < self->step_count; s++)
            for (int32_t m = 0; m < self->steps[s].input_count; m++)
                is_read |= self->steps[s].inputs[m].tensor == t;
        if (!is_read)
            tt_config_remark(work, message->input[self->tensors[t].input], "name",
                             "no step reads input '%s' of the ensemble", self->tensors[t].name);
    }
}

static bool take_ensemble(struct tt_config_work *work, const Inference__ModelEnsembling *message) {
    struct tt_ensemble_config *self = calloc(1, sizeof(*self));
    int32_t problems_before = work->findings->problem_count;
    work->config->ensemble = self;
    if (!self)
        return false;
    self->steps = calloc(message->n_step, sizeof(*self->steps));
    self->tensors = calloc(TT_ENSEMBLE_CONFIG_TENSORS, sizeof(*self->tensors));
    if (!self->steps || !self->tensors)
        return false;
    self->step_count = (int32_t)message->n_step;
    for (size_t i = 0; i < work->config->message->n_input; i++)
        (void)add_tensor(work, work->config->message->input[i]->name, -1, (int32_t)i);
    if (!take_steps(work, message))
        return false;
    if (work->findings->problem_count > problems_before)
        return true; /* more would follow from these */
    take_whole_outputs(work);
    note_unread(work);
    return put_in_order(work);
}

void tt_config_take_ensemble(struct tt_config_work *work) {
    const Inference__ModelEnsembling *message = work->config->message->ensemble_scheduling;
    if (message->n_step < 1 || message->n_step > TT_ENSEMBLE_CONFIG_STEPS) {
        tt_config_problem(work, work->config->message, "ensemble_scheduling",
                          "ensemble_scheduling has %zu steps; 1 to %d are possible",
                          message->n_step, TT_ENSEMBLE_CONFIG_STEPS);
        return;
    }
    if (message->max_inflight_requests > 0 || message->max_inflight_responses > 0)
        tt_config_remark(work, message, "max_inflight_requests",
                         "max_inflight_requests has no effect in Tutti: the limits of the steps' "
                         "models hold");
    work->no_memory |= !take_ensemble(work, message);
}
