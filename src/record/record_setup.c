#include "record/record_setup.h"

#include "base/instant.h"
#include "recording.pb-c.h"

#include <stdlib.h>
#include <string.h>

/* A field that is not recorded would make replays differ without a visible reason. (The kind in
 * tt_policy_setup is recorded as the policy's name.) */
_Static_assert(sizeof(void *) != 8 || sizeof(struct tt_step_model) == 152,
               "a new field of tt_step_model: record it here and in proto/recording.proto");
_Static_assert(sizeof(void *) != 8 || sizeof(struct tt_step) == 40,
               "a new field of tt_step: record it here and in proto/recording.proto");
_Static_assert(sizeof(void *) != 8 || sizeof(struct tt_policy_setup) == 56,
               "a new field of tt_policy_setup: record it here and in proto/recording.proto");

enum {
    MAX_STEPS = 4096,
    MAX_CAPACITY = 65536,
    MAX_REQUESTS = 1 << 26,
    MAX_DEPTH = 1024,
    MAX_THREADS = 64,
    MAX_THREADED_REQUESTS = 1 << 24,
    MAX_ROUNDS = 1 << 20,
};
#define MAX_NS (TT_NEVER / 1024) /* policies add and multiply durations by small numbers */

static void *pack(const ProtobufCMessage *message, size_t head_bytes, size_t *out_bytes) {
    size_t count = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(head_bytes + count + 1);
    if (!bytes)
        return NULL;
    protobuf_c_message_pack(message, bytes + head_bytes);
    *out_bytes = count;
    return bytes;
}

static char *copy(const char *text) { return strdup(text ? text : ""); }

/* ---- profiles ---- */

struct packed_profile {
    Tutti__RecordedProfile message;
    int64_t *steps;
    int32_t *demands;
};

static bool fill_profile(struct packed_profile *out, const struct tt_profile *profile) {
    tt_profile_check(profile);
    tutti__recorded_profile__init(&out->message);
    size_t batches = (size_t)profile->max_batch, lengths = (size_t)profile->length_count;
    out->steps = malloc(batches * lengths * sizeof(*out->steps));
    out->demands = malloc(batches * lengths * sizeof(*out->demands));
    if (!out->steps || !out->demands)
        return false;
    for (size_t row = 0, k = 0; row < lengths; row++)
        for (size_t b = 1; b <= batches; b++, k++) {
            const int64_t *latency = profile->latency_ns + row * (batches + 1);
            out->steps[k] = latency[b] - latency[b - 1];
            out->demands[k] = profile->demand_ppm[row * (batches + 1) + b];
        }
    Tutti__RecordedProfile *m = &out->message;
    m->max_batch = profile->max_batch;
    m->n_length = lengths;
    m->length = profile->lengths;
    m->n_latency_step_ns = batches * lengths;
    m->latency_step_ns = out->steps;
    m->n_demand_ppm = profile->knows_demand ? batches * lengths : 0;
    m->demand_ppm = out->demands;
    m->alpha_ns = profile->alpha_ns;
    m->beta_ns = profile->beta_ns;
    return true;
}

static enum tt_err read_profile(const Tutti__RecordedProfile *m, struct tt_profile **out_profile,
                                struct tt_error *why) {
    if (!m || m->max_batch < 1 || m->max_batch > TT_PROFILE_MAX_BATCH || m->n_length < 1 ||
        m->n_length > 4096 || m->n_latency_step_ns != m->n_length * (size_t)m->max_batch ||
        (m->n_demand_ppm != 0 && m->n_demand_ppm != m->n_latency_step_ns))
        return tt_fail(TT_ERR_INVALID, why, "a profile is missing or its table has gaps");
    size_t batches = (size_t)m->max_batch + 1;
    int64_t *latency = calloc(m->n_length * batches, sizeof(*latency));
    int32_t *demand = calloc(m->n_length * batches, sizeof(*demand));
    enum tt_err err = latency && demand ? TT_OK : TT_ERR_NO_MEMORY;
    for (size_t row = 0, k = 0; !err && row < m->n_length; row++)
        for (size_t b = 1; !err && b < batches; b++, k++) {
            int64_t step = m->latency_step_ns[k], before = latency[row * batches + b - 1];
            demand[row * batches + b] = m->n_demand_ppm ? m->demand_ppm[k] : TT_DEMAND_WHOLE;
            if (step < 0 || step > MAX_NS - before)
                err =
                    tt_fail(TT_ERR_INVALID, why, "a profile's latencies fall or are out of range");
            else
                latency[row * batches + b] = before + step;
        }
    if (!err && (m->alpha_ns > MAX_NS / TT_PROFILE_MAX_BATCH || m->beta_ns > MAX_NS))
        err = tt_fail(TT_ERR_INVALID, why, "a profile's alpha or beta is out of range");
    struct tt_profile table = {.max_batch = m->max_batch,
                               .length_count = (int32_t)m->n_length,
                               .lengths = m->length,
                               .latency_ns = latency,
                               .demand_ppm = demand,
                               .knows_demand = m->n_demand_ppm > 0,
                               .alpha_ns = m->alpha_ns,
                               .beta_ns = m->beta_ns};
    if (!err)
        err = tt_profile_new_table(&table, out_profile, why);
    if (!err)
        tt_profile_check(*out_profile);
    free(latency);
    free(demand);
    return err == TT_ERR_NO_MEMORY ? tt_fail(err, why, "out of memory") : err;
}

/* ---- models ---- */

static void fill_rule(Tutti__RecordedQueueRule *to, const struct tt_queue_rule *from) {
    tutti__recorded_queue_rule__init(to);
    to->timeout_ns = from->timeout_ns;
    to->max_count = from->max_count;
    to->delay_late = from->delay_late;
    to->late_every = from->late_every;
    to->compute_late = from->compute_late;
    to->allow_override = from->allow_override;
}

void *tt_record_model_pack(const struct tt_step_model *model, size_t head_bytes,
                           size_t *out_bytes) {
    tt_assert(model->step_count >= 1);
    tt_assert(model->whole != NULL);
    tt_assert(model->preferred_count == 0 || model->preferred);
    tt_assert(model->rule_count == 0 || model->rules);
    size_t steps = (size_t)model->step_count;
    struct packed_profile *profiles = calloc(steps + 1, sizeof(*profiles));
    Tutti__RecordedStep *messages = calloc(steps, sizeof(*messages));
    Tutti__RecordedStep **pointers = calloc(steps, sizeof(Tutti__RecordedStep *));
    bool good = profiles && messages && pointers;
    for (size_t i = 0; good && i < steps; i++) {
        good = fill_profile(&profiles[i], model->steps[i].profile);
        tutti__recorded_step__init(&messages[i]);
        messages[i].name = (char *)(model->steps[i].name ? model->steps[i].name : "");
        messages[i].kind = (int32_t)model->steps[i].kind;
        messages[i].profile = &profiles[i].message;
        messages[i].min_rows = model->steps[i].min_rows;
        messages[i].cell = model->steps[i].cell;
        messages[i].may_exit = model->steps[i].may_exit;
        pointers[i] = &messages[i];
    }
    Tutti__RecordedQueueRule *rules = calloc((size_t)model->rule_count + 1, sizeof(*rules));
    Tutti__RecordedQueueRule **rule_pointers =
        calloc((size_t)model->rule_count + 1, sizeof(Tutti__RecordedQueueRule *));
    good = good && rules && rule_pointers;
    for (int32_t i = 0; good && i < model->rule_count; i++) {
        fill_rule(&rules[i], &model->rules[i]);
        rule_pointers[i] = &rules[i];
    }
    Tutti__RecordedModel m = TUTTI__RECORDED_MODEL__INIT;
    if (good && (steps > 1 || model->whole != model->steps[0].profile)) {
        good = fill_profile(&profiles[steps], model->whole);
        m.whole = &profiles[steps].message;
    }
    m.name = (char *)(model->name ? model->name : "");
    m.n_step = steps;
    m.step = pointers;
    m.slo_ns = model->slo_ns;
    m.ttft_ns = model->tokens.ttft_ns;
    m.tpot_ns = model->tokens.tpot_ns;
    m.max_batch = model->max_batch;
    m.window_ns = model->window_ns;
    m.padded = model->padded;
    m.slots = model->slots;
    m.n_preferred = (size_t)model->preferred_count;
    m.preferred = (int32_t *)model->preferred;
    m.n_output_quantile = model->output_quantiles ? TT_QUANTILES : 0;
    m.output_quantile = (int32_t *)model->output_quantiles;
    m.pins_outputs = model->pins_outputs;
    m.delay_ns = model->delay_ns;
    m.target = model->target;
    m.dec_timesteps = model->dec_timesteps;
    m.n_executor = (size_t)model->executor_count;
    m.executor = (int32_t *)model->executors;
    m.may_exit = tt_step_may_exit(model, 0, model->step_count - 1);
    m.n_rule = (size_t)model->rule_count;
    m.rule = rule_pointers;
    void *bytes = good ? pack(&m.base, head_bytes, out_bytes) : NULL;
    for (size_t i = 0; profiles && i <= steps; i++) {
        free(profiles[i].steps);
        free(profiles[i].demands);
    }
    free(profiles);
    free(messages);
    free(pointers);
    free(rules);
    free(rule_pointers);
    return bytes;
}

/* If a step decodes, the quantiles of the output lengths must be there, ascending from 1. */
static enum tt_err check_quantiles(const Tutti__RecordedModel *m, struct tt_error *why) {
    bool decodes = false;
    for (size_t i = 0; i < m->n_step; i++)
        decodes |= m->step[i]->kind == TT_STEP_DECODER;
    bool good = m->n_output_quantile == TT_QUANTILES || (!decodes && m->n_output_quantile == 0);
    for (size_t i = 0; good && i < m->n_output_quantile; i++)
        good = m->output_quantile[i] >= (i ? m->output_quantile[i - 1] : 1) &&
               m->output_quantile[i] <= MAX_ROUNDS;
    return good ? TT_OK
                : tt_fail(TT_ERR_INVALID, why,
                          "model '%s': the quantiles of its outputs' lengths are wrong", m->name);
}

static enum tt_err check_model(const Tutti__RecordedModel *m, struct tt_error *why) {
    if (m->n_step < 1 || m->n_step > MAX_STEPS || (m->n_step > 1 && !m->whole))
        return tt_fail(TT_ERR_INVALID, why, "model '%s' has %zu steps%s", m->name, m->n_step,
                       m->whole ? "" : " and no profile of all of them");
    if (m->slo_ns < 0 || (m->slo_ns > MAX_NS && m->slo_ns != TT_NEVER) || m->window_ns < 0 ||
        m->window_ns > MAX_NS)
        return tt_fail(TT_ERR_INVALID, why, "model '%s' has an SLO or window out of range",
                       m->name);
    if (m->ttft_ns < 0 || m->ttft_ns > MAX_NS || m->tpot_ns < 0 || m->tpot_ns > MAX_NS)
        return tt_fail(TT_ERR_INVALID, why, "model '%s' has objectives for tokens out of range",
                       m->name);
    if (m->slots < 0)
        return tt_fail(TT_ERR_INVALID, why, "model '%s' has %d slots", m->name, m->slots);
    if (m->delay_ns < 0 || m->delay_ns > MAX_NS || m->target < 0 || m->dec_timesteps < 0 ||
        m->dec_timesteps > MAX_ROUNDS)
        return tt_fail(TT_ERR_INVALID, why, "model '%s' has settings of a policy out of range",
                       m->name);
    for (size_t i = 0; i < m->n_executor; i++)
        if (m->executor[i] < 0 || (i > 0 && m->executor[i] <= m->executor[i - 1]))
            return tt_fail(TT_ERR_INVALID, why, "model '%s': its executors must ascend", m->name);
    for (size_t i = 0; i < m->n_preferred; i++)
        if (m->preferred[i] < 1 || (i > 0 && m->preferred[i] <= m->preferred[i - 1]))
            return tt_fail(TT_ERR_INVALID, why, "model '%s': preferred batches must ascend",
                           m->name);
    for (size_t i = 0; i < m->n_step; i++)
        if (m->step[i]->kind < TT_STEP_STATIC || m->step[i]->kind > TT_STEP_DECODER ||
            m->step[i]->min_rows < 0)
            return tt_fail(TT_ERR_INVALID, why,
                           "model '%s': no step is of kind %d, or asks for %d rows", m->name,
                           m->step[i]->kind, m->step[i]->min_rows);
    for (size_t i = 0; i < m->n_rule; i++)
        if (m->rule[i]->timeout_ns < 0 || m->rule[i]->timeout_ns > MAX_NS ||
            m->rule[i]->max_count < 0 || m->n_rule > TT_QUEUE_MAX_LEVELS + 1)
            return tt_fail(TT_ERR_INVALID, why, "model '%s': a queue rule is out of range",
                           m->name);
    return check_quantiles(m, why);
}

/* The steps that are read count in the model at once, so that it frees them after an error. */
static enum tt_err fill_steps(struct tt_step_model *model, struct tt_step *steps,
                              const Tutti__RecordedModel *m, struct tt_error *why) {
    bool says_where = false; /* older recordings do not */
    for (size_t i = 0; i < m->n_step; i++)
        says_where |= m->step[i]->may_exit;
    for (; (size_t)model->step_count < m->n_step; model->step_count++) {
        const Tutti__RecordedStep *from = m->step[model->step_count];
        struct tt_profile *profile;
        enum tt_err err = read_profile(from->profile, &profile, why);
        if (err)
            return tt_fail_in(err, why, "model '%s'", m->name);
        steps[model->step_count] =
            (struct tt_step){.name = copy(from->name),
                             .profile = profile,
                             .kind = (enum tt_step_kind)from->kind,
                             .min_rows = from->min_rows,
                             .cell = from->cell,
                             .may_exit = says_where ? from->may_exit : m->may_exit};
    }
    return TT_OK;
}

static enum tt_err fill_model(struct tt_record_model *self, const Tutti__RecordedModel *m,
                              struct tt_error *why) {
    enum tt_err err = check_model(m, why);
    if (err)
        return err;
    struct tt_step_model *model = &self->step_model;
    struct tt_step *steps = calloc(m->n_step, sizeof(*steps));
    int32_t *preferred = calloc(m->n_preferred + 1, sizeof(*preferred));
    int32_t *executors = m->n_executor ? calloc(m->n_executor, sizeof(*executors)) : NULL;
    int32_t *quantiles = m->n_output_quantile ? calloc(TT_QUANTILES, sizeof(*quantiles)) : NULL;
    struct tt_queue_rule *rules = m->n_rule ? calloc(m->n_rule, sizeof(*rules)) : NULL;
    self->name = copy(m->name);
    *model = (struct tt_step_model){.name = self->name,
                                    .steps = steps,
                                    .slo_ns = m->slo_ns,
                                    .tokens = {m->ttft_ns, m->tpot_ns},
                                    .max_batch = m->max_batch,
                                    .padded = m->padded,
                                    .slots = m->slots,
                                    .output_quantiles = quantiles,
                                    .pins_outputs = m->pins_outputs,
                                    .delay_ns = m->delay_ns,
                                    .target = m->target,
                                    .dec_timesteps = m->dec_timesteps,
                                    .executor_count = (int32_t)m->n_executor,
                                    .executors = executors,
                                    .window_ns = m->window_ns,
                                    .preferred_count = (int32_t)m->n_preferred,
                                    .preferred = preferred,
                                    .rule_count = (int32_t)m->n_rule,
                                    .rules = rules};
    if (!steps || !preferred || !self->name || (m->n_rule && !rules) ||
        (m->n_executor && !executors) || (m->n_output_quantile && !quantiles))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (size_t i = 0; i < m->n_rule; i++)
        rules[i] = (struct tt_queue_rule){.timeout_ns = m->rule[i]->timeout_ns,
                                          .max_count = m->rule[i]->max_count,
                                          .delay_late = m->rule[i]->delay_late,
                                          .late_every = m->rule[i]->late_every,
                                          .compute_late = m->rule[i]->compute_late,
                                          .allow_override = m->rule[i]->allow_override};
    for (size_t i = 0; i < m->n_preferred; i++)
        preferred[i] = m->preferred[i];
    for (size_t i = 0; i < m->n_executor; i++)
        executors[i] = m->executor[i];
    for (size_t i = 0; i < m->n_output_quantile; i++)
        quantiles[i] = m->output_quantile[i];
    err = fill_steps(model, steps, m, why);
    if (err)
        return err;
    if (m->whole) {
        struct tt_profile *whole;
        err = read_profile(m->whole, &whole, why);
        if (err)
            return tt_fail_in(err, why, "model '%s'", m->name);
        model->whole = whole;
    } else {
        model->whole = steps[0].profile;
    }
    if (m->max_batch < 1 || m->max_batch > model->whole->max_batch)
        return tt_fail(TT_ERR_INVALID, why,
                       "model '%s' has a maximum batch of %d, its profile one of %d", m->name,
                       m->max_batch, model->whole->max_batch);
    return TT_OK;
}

enum tt_err tt_record_model_read(const void *bytes, size_t count,
                                 struct tt_record_model **out_model, struct tt_error *why) {
    Tutti__RecordedModel *m = tutti__recorded_model__unpack(NULL, count, bytes);
    struct tt_record_model *self = m ? calloc(1, sizeof(*self)) : NULL;
    if (!self) {
        if (m)
            tutti__recorded_model__free_unpacked(m, NULL);
        return m ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory")
                 : tt_fail(TT_ERR_INVALID, why, "a model's description is malformed");
    }
    enum tt_err err = fill_model(self, m, why);
    tutti__recorded_model__free_unpacked(m, NULL);
    if (err) {
        tt_record_model_free(self);
        return err;
    }
    *out_model = self;
    return TT_OK;
}

void tt_record_model_free(struct tt_record_model *take_model) {
    if (!take_model)
        return;
    struct tt_step_model *model = &take_model->step_model;
    const struct tt_profile *first = model->step_count ? model->steps[0].profile : NULL;
    if (model->whole && model->whole != first)
        tt_profile_free((struct tt_profile *)model->whole);
    for (int32_t i = 0; i < model->step_count; i++) {
        tt_profile_free((struct tt_profile *)model->steps[i].profile);
        free((char *)model->steps[i].name);
    }
    free((struct tt_step *)model->steps);
    free((int32_t *)model->preferred);
    free((int32_t *)model->output_quantiles);
    free((int32_t *)model->executors);
    free((struct tt_queue_rule *)model->rules);
    free(take_model->name);
    free(take_model);
}

/* ---- domains ---- */

void *tt_record_domain_pack(const struct tt_record_domain *domain, size_t head_bytes,
                            size_t *out_bytes) {
    Tutti__RecordedOption options[TT_MAX_OPTIONS], *pointers[TT_MAX_OPTIONS];
    tt_assert(domain->policy != NULL);
    tt_assert(domain->option_count >= 0);
    tt_assert(domain->option_count <= TT_MAX_OPTIONS);
    tt_assert(domain->scheduler_threads >= 0);
    for (int32_t i = 0; i < domain->option_count; i++) {
        tutti__recorded_option__init(&options[i]);
        options[i].key = (char *)domain->options[i].key;
        options[i].value = (char *)domain->options[i].value;
        pointers[i] = &options[i];
    }
    Tutti__RecordedDomain m = TUTTI__RECORDED_DOMAIN__INIT;
    m.program = domain->program;
    m.policy = domain->policy;
    m.n_option = (size_t)domain->option_count;
    m.option = pointers;
    m.model_capacity = domain->limits.model_capacity;
    m.executor_capacity = domain->limits.executor_capacity;
    m.max_batch = domain->limits.max_batch;
    m.depth = domain->limits.depth;
    m.request_limit = domain->limits.request_limit;
    m.d_ctrl_ns = domain->d_ctrl_ns;
    m.d_data_ns = domain->d_data_ns;
    m.lateness_ns = domain->lateness_ns;
    m.has_rules = domain->limits.has_rules;
    m.scheduler_threads = domain->scheduler_threads;
    m.learn_percent = domain->limits.learn_percent;
    m.refuses_early = domain->limits.refuses_early;
    m.learns_outputs = domain->limits.learns_outputs;
    m.learns_delays = domain->limits.learns_delays;
    return pack(&m.base, head_bytes, out_bytes);
}

static bool within(int64_t value, int64_t low, int64_t high) {
    return value >= low && value <= high;
}

static enum tt_err fill_domain(struct tt_record_domain *self, const Tutti__RecordedDomain *m,
                               struct tt_error *why) {
    if (!within(m->model_capacity, 1, MAX_CAPACITY) ||
        !within(m->executor_capacity, 1, MAX_CAPACITY) ||
        !within(m->max_batch, 1, TT_PROFILE_MAX_BATCH) || !within(m->depth, 1, MAX_DEPTH) ||
        !within(m->request_limit, 1, MAX_REQUESTS) || !within(m->d_ctrl_ns, 0, MAX_NS) ||
        !within(m->d_data_ns, 0, MAX_NS / TT_PROFILE_MAX_BATCH) ||
        !within(m->lateness_ns, 0, MAX_NS) ||
        (int64_t)m->executor_capacity * m->depth * m->max_batch > 1 << 26)
        return tt_fail(TT_ERR_INVALID, why, "a domain's limits are out of range");
    if (m->learn_percent != 0 &&
        !within(m->learn_percent, TT_BELIEF_MIN_PERCENT, TT_BELIEF_MAX_PERCENT))
        return tt_fail(TT_ERR_INVALID, why, "a domain learns the quantile %d, not %d .. %d",
                       m->learn_percent, TT_BELIEF_MIN_PERCENT, TT_BELIEF_MAX_PERCENT);
    if (!within(m->scheduler_threads, 0, MAX_THREADS) ||
        (m->scheduler_threads > 0 && (m->request_limit > MAX_THREADED_REQUESTS ||
                                      m->executor_capacity * (int64_t)m->max_batch > 1 << 20)))
        return tt_fail(TT_ERR_INVALID, why,
                       "a domain's limits are out of range for one scheduled on threads");
    if (m->n_option > TT_MAX_OPTIONS)
        return tt_fail(TT_ERR_INVALID, why, "a policy has %zu options", m->n_option);
    self->program = copy(m->program);
    self->policy = copy(m->policy);
    bool good = self->program && self->policy;
    for (; good && (size_t)self->option_count < m->n_option; self->option_count++) {
        struct tt_option *option = &self->options[self->option_count];
        option->key = copy(m->option[self->option_count]->key);
        option->value = copy(m->option[self->option_count]->value);
        good = option->key && option->value;
    }
    self->limits = (struct tt_mechanism_options){.model_capacity = m->model_capacity,
                                                 .executor_capacity = m->executor_capacity,
                                                 .max_batch = m->max_batch,
                                                 .depth = m->depth,
                                                 .request_limit = m->request_limit,
                                                 .has_rules = m->has_rules,
                                                 .learn_percent = m->learn_percent,
                                                 .refuses_early = m->refuses_early,
                                                 .learns_outputs = m->learns_outputs,
                                                 .lateness_ns = m->lateness_ns,
                                                 .learns_delays = m->learns_delays,
                                                 .delay = {m->d_ctrl_ns, m->d_data_ns}};
    self->d_ctrl_ns = m->d_ctrl_ns;
    self->d_data_ns = m->d_data_ns;
    self->lateness_ns = m->lateness_ns;
    self->scheduler_threads = m->scheduler_threads;
    return good ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
}

enum tt_err tt_record_domain_read(const void *bytes, size_t count,
                                  struct tt_record_domain **out_domain, struct tt_error *why) {
    Tutti__RecordedDomain *m = tutti__recorded_domain__unpack(NULL, count, bytes);
    if (!m)
        return tt_fail(TT_ERR_INVALID, why, "a domain's description is malformed");
    struct tt_record_domain *self = calloc(1, sizeof(*self));
    enum tt_err err =
        self ? fill_domain(self, m, why) : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    tutti__recorded_domain__free_unpacked(m, NULL);
    if (err) {
        tt_record_domain_free(self);
        return err;
    }
    *out_domain = self;
    return TT_OK;
}

struct tt_policy_setup tt_record_domain_setup(const struct tt_record_domain *domain,
                                              const struct tt_mechanism *mechanism) {
    tt_assert(mechanism->model_capacity == domain->limits.model_capacity);
    tt_assert(mechanism->executor_capacity == domain->limits.executor_capacity);
    return (struct tt_policy_setup){.domain = mechanism,
                                    .d_ctrl_ns = domain->d_ctrl_ns,
                                    .d_data_ns = domain->d_data_ns,
                                    .lateness_ns = domain->lateness_ns,
                                    .options = domain->options,
                                    .option_count = domain->option_count};
}

void tt_record_domain_free(struct tt_record_domain *take_domain) {
    if (!take_domain)
        return;
    for (int32_t i = 0; i < TT_MAX_OPTIONS; i++) {
        free((char *)take_domain->options[i].key);
        free((char *)take_domain->options[i].value);
    }
    free(take_domain->program);
    free(take_domain->policy);
    free(take_domain);
}
