#include "control/policy_check.h"

#include "control/placing.h"
#include "policy/auto_policy.h"

#include <stdio.h>
#include <string.h>

static void check_option(const struct tt_model_settings *settings, const char *policy,
                         const struct tt_option_spec *specs, int32_t spec_count,
                         const Tutti__ModelPolicyOption *given, struct tt_findings *findings) {
    const char *keys[TT_MAX_OPTIONS];
    int64_t values[TT_MAX_OPTIONS];
    struct tt_option option = {.key = given->key, .value = given->value};
    struct tt_error why;
    if (tt_options_parse(specs, spec_count, &option, 1, values, &why) == TT_OK)
        return;
    bool is_known = false;
    for (int32_t i = 0; i < spec_count; i++) {
        keys[i] = specs[i].key;
        is_known |= strcmp(keys[i], given->key) == 0;
    }
    const char *near = is_known ? NULL : tt_textproto_nearest(given->key, keys, (size_t)spec_count);
    if (near)
        tt_model_settings_problem(settings, findings, given, "key",
                                  "policy %s: no option '%s'; did you mean '%s'?", policy,
                                  given->key, near);
    else
        tt_model_settings_problem(settings, findings, given, is_known ? "value" : "key",
                                  "policy %s: %s", policy, why.text);
}

/* The cells of a sequence follow from its length. Those of other requests are not kept, so no
 * policy can be tried on them. */
static void check_auto(const struct tt_model_settings *settings, const Tutti__ModelPolicy *policy,
                       struct tt_findings *findings) {
    int32_t count;
    const struct tt_option_spec *specs = tt_auto_option_specs(&count);
    if (tt_model_settings_has_trees(settings))
        tt_model_settings_problem(settings, findings, policy, "name",
                                  "policy auto tries policies on requests of the last minutes, and "
                                  "does not keep trees or graphs of a plug-in: leave the policy "
                                  "out, or name it");
    for (size_t i = 0; i < policy->n_option; i++)
        check_option(settings, tt_auto_name, specs, count, policy->option[i], findings);
}

/* A policy that decides between the steps of a model, and a model of one step. The profile of an
 * emulated model may have steps. */
static void remark_one_step(const struct tt_repository_model *model,
                            const struct tt_policy_kind *kind, struct tt_findings *findings) {
    const struct tt_model_settings *settings = model->settings;
    bool needs_steps = kind->traits.granularity == TT_GRANULARITY_STAGE ||
                       kind->traits.granularity == TT_GRANULARITY_NODE;
    if (needs_steps && !settings->stages && !settings->unfold && !model->config->engine->emulates)
        tt_findings_add(findings, TT_FINDING_REMARK,
                        "policy %s decides between stages, and this model runs whole: %s",
                        kind->name,
                        model->config->engine->needs_file
                            ? "write stages { ... } (tutti slice shows where to cut), or another "
                              "policy"
                            : "choose another policy");
}

static bool orders_cells(const struct tt_policy_kind *kind) {
    return kind->traits.orders_by_priority && tt_policy_is_by_cells(kind);
}

static bool orders_graphs(const struct tt_policy_kind *kind) {
    return kind->traits.orders_by_priority && !tt_policy_is_by_cells(kind);
}

bool tt_policy_ignores_priorities(const struct tt_repository_model *model,
                                  const struct tt_policy_kind *kind,
                                  char out_sentence[TT_POLICY_REMARK_BYTES]) {
    char names[200];
    int32_t levels = model->config->batching.priority_count;
    bool has_cells = tt_model_settings_has_cells(model->settings);
    if (levels < 2 || kind->traits.orders_by_priority)
        return false;
    snprintf(out_sentence, TT_POLICY_REMARK_BYTES,
             "priority_levels is %d, but policy %s does not order requests by priority; these do: "
             "%s",
             (int)levels, kind->name,
             tt_policy_names(has_cells ? orders_cells : orders_graphs, names, sizeof(names)));
    return true;
}

static void remark_priorities(const struct tt_repository_model *model,
                              struct tt_findings *findings) {
    struct tt_placing placing = {0};
    char sentence[TT_POLICY_REMARK_BYTES];
    tt_placing_choose(&placing, model, NULL);
    const struct tt_policy_kind *kind = tt_placing_kind(&placing);
    if (kind && !placing.is_auto && tt_policy_ignores_priorities(model, kind, sentence))
        tt_findings_add(findings, TT_FINDING_REMARK, "%s", sentence);
}

/* Requests that differ in more than their rows, in a model that batches and does not pad. */
static void remark_lengths(const struct tt_repository_model *model, struct tt_findings *findings) {
    const struct tt_signature *signature = &model->config->signature;
    const struct tt_model_settings *settings = model->settings;
    if (!signature->batched || signature->max_batch < 2 || settings->pad ||
        tt_model_settings_has_cells(settings))
        return;
    for (int32_t i = 0; i < signature->input_count; i++) {
        const struct tt_shape *shape = &signature->inputs[i].shape;
        for (int32_t d = 1; d < shape->rank; d++)
            if (shape->dims[d] < 0) {
                tt_findings_add(findings, TT_FINDING_REMARK,
                                "input '%s' has a free dimension besides the rows: only requests "
                                "of equal shape share a batch; if zeros behind an input change no "
                                "answer, length { pad: true } lets all share",
                                signature->inputs[i].name);
                return;
            }
    }
}

void tt_policy_check(const struct tt_repository_model *model, struct tt_findings *findings) {
    enum { MAX_POLICIES = 64 };
    const struct tt_model_settings *settings = model->settings;
    const Tutti__ModelPolicy *policy = settings->message->policy;
    remark_lengths(model, findings);
    remark_priorities(model, findings);
    if (!policy || !*policy->name)
        return;
    if (tt_policy_is_auto(policy->name)) {
        check_auto(settings, policy, findings);
        return;
    }
    const struct tt_policy_kind *kind = tt_policy_find(policy->name);
    if (!kind) {
        const char *known[MAX_POLICIES + 1];
        char names[512];
        int32_t count = tt_policy_count() < MAX_POLICIES ? tt_policy_count() : MAX_POLICIES;
        for (int32_t i = 0; i < count; i++)
            known[i] = tt_policy_at(i)->name;
        known[count] = tt_auto_name;
        const char *near = tt_textproto_nearest(policy->name, known, (size_t)count + 1);
        tt_model_settings_problem(settings, findings, policy, "name",
                                  "no policy is called '%s'; %s%s%s%s", policy->name,
                                  near ? "did you mean '" : "there are: ",
                                  near ? near : tt_policy_names(NULL, names, sizeof(names)),
                                  near ? "'?" : ", ", near ? "" : tt_auto_name);
        return;
    }
    remark_one_step(model, kind, findings);
    for (size_t i = 0; i < policy->n_option; i++)
        check_option(settings, kind->name, kind->options, kind->option_count, policy->option[i],
                     findings);
}
