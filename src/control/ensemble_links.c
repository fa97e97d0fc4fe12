#include "control/ensemble_links.h"

#include "base/fnv.h"
#include "base/instant.h"
#include "model/config/ensemble_config.h"
#include "model/repository/repository.h"
#include "serve/ensemble.h"
#include "serve/ensemble_run.h"
#include "serve/served_model_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)TT_ENSEMBLE_CONFIG_STEPS == (int)TT_ENSEMBLE_MAX_STEPS,
               "what is read is served");

/* ---- looking at entries ---- */

static struct tt_model_entry *find(const struct tt_model_entry *list, const char *name) {
    while (list && strcmp(list->name, name) != 0)
        list = list->next;
    return (struct tt_model_entry *)list;
}

static const struct tt_ensemble_config *steps_of(const struct tt_repository *repository) {
    return repository ? repository->models[0].config->ensemble : NULL;
}

/* The entry's steps as they are, or will be; NULL: it is no ensemble. */
static const struct tt_ensemble_config *steps_at(const struct tt_model_entry *entry) {
    return steps_of(entry->pending ? entry->pending : entry->ensemble);
}

/* The version that the step gets now: the one that it names, or the highest that serves; else NULL.
 */
static const struct tt_version_entry *part_of(const struct tt_model_entry *list,
                                              const struct tt_ensemble_config_step *step) {
    const struct tt_model_entry *entry = find(list, step->model);
    const struct tt_version_entry *best = NULL;
    for (const struct tt_version_entry *v = entry ? entry->versions : NULL; v; v = v->next) {
        if (!v->model || (*step->version && strcmp(v->number, step->version) != 0))
            continue;
        if (!best || strtoll(v->number, NULL, 10) > strtoll(best->number, NULL, 10))
            best = v;
    }
    return best;
}

/* Why the step gets no model. */
static enum tt_err fail_part(const struct tt_model_entry *list,
                             const struct tt_ensemble_config_step *step, struct tt_error *why) {
    const struct tt_model_entry *entry = find(list, step->model);
    const struct tt_version_entry *told = NULL;
    for (const struct tt_version_entry *v = entry ? entry->versions : NULL; v; v = v->next)
        if (!v->model && (!*step->version || strcmp(v->number, step->version) == 0))
            told = v;
    if (told)
        (void)tt_fail(TT_ERR_UNAVAILABLE, why, "version %s is %s%s%s", told->number,
                      tt_model_state_name(told->state), *told->reason ? ": " : "", told->reason);
    else if (*step->version && entry && entry->versions)
        (void)tt_fail(TT_ERR_UNAVAILABLE, why, "it has no version %s", step->version);
    else if (entry && (entry->is_on_disk || entry->is_wanted))
        (void)tt_fail(TT_ERR_UNAVAILABLE, why, "it is not loaded");
    else
        (void)tt_fail(TT_ERR_UNAVAILABLE, why, "there is no such model in the repository");
    return tt_fail_in(TT_ERR_UNAVAILABLE, why, "step %d (model '%s')", step->number, step->model);
}

void tt_ensemble_links_restart(struct tt_model_entry *list) {
    for (struct tt_model_entry *entry = list; entry; entry = entry->next)
        entry->is_tried = false;
}

struct tt_model_entry *tt_ensemble_links_missing(struct tt_model_entry *list) {
    for (const struct tt_model_entry *entry = list; entry; entry = entry->next) {
        const struct tt_ensemble_config *steps = steps_of(entry->pending);
        for (int32_t s = 0; steps && s < steps->step_count; s++) {
            struct tt_model_entry *part = find(list, steps->steps[s].model);
            if (!part || !part->is_on_disk || part->is_tried || part->pending ||
                tt_model_entry_serves(part))
                continue;
            part->is_tried = true;
            return part;
        }
    }
    return NULL;
}

struct tt_model_entry *tt_ensemble_links_pending(struct tt_model_entry *list) {
    struct tt_model_entry *first = NULL;
    for (struct tt_model_entry *entry = list; entry; entry = entry->next) {
        const struct tt_ensemble_config *steps = steps_of(entry->pending);
        bool waits = false;
        for (int32_t s = 0; steps && s < steps->step_count; s++) {
            const struct tt_model_entry *part = find(list, steps->steps[s].model);
            waits |= part && part->pending;
        }
        if (steps && !waits)
            return entry;
        if (steps && !first)
            first = entry;
    }
    return first;
}

uint64_t tt_ensemble_links_stamp(const struct tt_model_entry *list,
                                 const struct tt_repository_model *model) {
    const struct tt_ensemble_config *steps = model->config->ensemble;
    uint64_t stamp = TT_FNV_START;
    for (int32_t s = 0; s < steps->step_count; s++) {
        const struct tt_version_entry *part = part_of(list, &steps->steps[s]);
        int64_t load_count = part ? part->load_count : 0;
        stamp = tt_fnv_add(stamp, &part, sizeof(part));
        stamp = tt_fnv_add(stamp, &load_count, sizeof(load_count));
    }
    return stamp ? stamp : 1;
}

struct tt_model_entry *tt_ensemble_links_stale(struct tt_model_entry *list) {
    for (struct tt_model_entry *entry = list; entry; entry = entry->next)
        if (entry->ensemble && entry->is_wanted && !entry->pending &&
            entry->links != tt_ensemble_links_stamp(list, &entry->ensemble->models[0]))
            return entry;
    return NULL;
}

static const struct tt_ensemble_config *look_up(void *context, const char *name) {
    const struct tt_model_entry *entry = find(context, name);
    return entry ? steps_at(entry) : NULL;
}

/* ---- linking ---- */

/* Fills the steps of `spec`, and the sources of their inputs. */
static enum tt_err take_parts(struct tt_model_entry *list, const struct tt_repository_model *model,
                              struct tt_ensemble_fit *fit, struct tt_ensemble_step_spec *steps,
                              struct tt_ensemble_source (*sources)[TT_MAX_TENSORS],
                              struct tt_error *why) {
    const struct tt_ensemble_config *ensemble = model->config->ensemble;
    for (int32_t s = 0; s < ensemble->step_count; s++) {
        const struct tt_ensemble_config_step *step = &ensemble->steps[s];
        int32_t tensors[TT_MAX_TENSORS];
        enum tt_err err = tt_ensemble_check_circle(step, model->name, look_up, list, why);
        if (err)
            return err;
        const struct tt_version_entry *part = part_of(list, step);
        if (!part)
            return fail_part(list, step, why);
        const struct tt_signature *signature = part->model->signature;
        err = tt_ensemble_fit_step(fit, s, signature, tensors, why);
        if (err)
            return err;
        for (int32_t i = 0; i < signature->input_count; i++) {
            const struct tt_ensemble_tensor *tensor = &ensemble->tensors[tensors[i]];
            sources[s][i] = (struct tt_ensemble_source){
                .step = tensor->step,
                .tensor = tensor->step < 0 ? tensor->input : fit->outputs[tensors[i]]};
        }
        steps[s] = (struct tt_ensemble_step_spec){
            .model = part->model, .number = step->number, .inputs = sources[s]};
    }
    return tt_ensemble_fit_end(fit, why);
}

static enum tt_err make_ensemble(struct tt_model_entry *list,
                                 const struct tt_repository_model *model,
                                 struct tt_ensemble **out_ensemble, struct tt_error *why) {
    const struct tt_ensemble_config *config = model->config->ensemble;
    size_t count = (size_t)config->step_count;
    struct tt_ensemble_fit *fit = malloc(sizeof(*fit)); /* too large for the stack */
    struct tt_ensemble_step_spec *steps = calloc(count, sizeof(*steps));
    struct tt_ensemble_source(*sources)[TT_MAX_TENSORS] = calloc(count, sizeof(*sources));
    struct tt_ensemble_source outputs[TT_MAX_TENSORS];
    enum tt_err err = fit && steps && sources ? TT_OK : TT_ERR_NO_MEMORY;
    if (err)
        (void)tt_fail(err, why, "out of memory for model %s", model->name);
    else
        tt_ensemble_fit_init(fit, model->config);
    if (!err)
        err = take_parts(list, model, fit, steps, sources, why);
    struct tt_ensemble_spec spec = {.step_count = config->step_count,
                                    .steps = steps,
                                    .output_count = model->config->signature.output_count,
                                    .outputs = outputs};
    for (int32_t i = 0; !err && i < spec.output_count; i++)
        outputs[i] = (struct tt_ensemble_source){.step = config->tensors[config->outputs[i]].step,
                                                 .tensor = fit->outputs[config->outputs[i]]};
    if (!err && (err = tt_ensemble_new(&spec, out_ensemble)))
        (void)tt_fail(err, why, "out of memory for model %s", model->name);
    free(sources);
    free(steps);
    free(fit);
    return err;
}

enum tt_err tt_ensemble_links_make(struct tt_model_entry *list,
                                   const struct tt_repository_model *model, int32_t version,
                                   struct tt_model_stats *stats,
                                   struct tt_served_model **out_served, struct tt_error *why) {
    struct tt_ensemble *ensemble;
    enum tt_err err = make_ensemble(list, model, &ensemble, why);
    if (err)
        return err;
    char number[32];
    snprintf(number, sizeof(number), "%lld", (long long)model->versions[version].number);
    struct tt_text config;
    tt_text_init(&config);
    err = tt_model_config_json(model->config, &config);
    const struct tt_served_model_spec spec = {
        .name = model->name,
        .version = number,
        .platform = model->config->message->platform,
        .config_json = tt_text_string(&config),
        .slo_ns = model->settings->slo_ns > 0 ? model->settings->slo_ns : TT_NEVER,
        .stats = stats,
    };
    if (!err)
        err = tt_served_model_new(&spec, out_served);
    tt_text_fini(&config);
    if (err) {
        tt_ensemble_free(ensemble);
        return tt_fail(err, why, "out of memory for model %s", model->name);
    }
    tt_ensemble_attach(*out_served, &model->config->signature, ensemble);
    return TT_OK;
}
