#include "lab/experiment/experiment_build.h"

#include "base/instant.h"
#include "lab/load/arrivals.h"
#include "lab/scenario/allocate.h"
#include "policy/auto_policy.h"
#include "policy/default_policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEVICES = 1000000, DEFAULT_DURATION_S = 30, OUTLIER_FACTOR = 3 };

/* ---- devices ---- */

static bool copy_engine(const Tutti__CopyEngine *given, struct tt_copy_engine *out) {
    if (!given)
        return true;
    if (!(given->gb_per_s >= 0 && given->gb_per_s <= 1e6))
        return false;
    out->bytes_per_s = (int64_t)(given->gb_per_s * 1e9 + 0.5);
    return tt_experiment_ns(given->fixed_us, TT_US, &out->fixed_ns);
}

static enum tt_err check_device(const struct tt_experiment *self,
                                const Tutti__ExperimentDevice *given, struct tt_sim_device *out,
                                struct tt_error *why) {
    bool count_given = tt_textproto_places_find(&self->places, given, "count", NULL);
    if (given->count < 0 || given->count > MAX_DEVICES || (count_given && given->count == 0))
        return tt_experiment_wrong(self, given, "count", why,
                                   "count is %d; a device block stands for 1 .. %d devices",
                                   given->count, MAX_DEVICES);
    if (given->executors < 0 || given->executors > 1024)
        return tt_experiment_wrong(self, given, "executors", why,
                                   "executors is %d; it must be 1 .. 1024", given->executors);
    out->executors = given->executors > 0 ? given->executors : 1;
    if (given->pool_slots < 0 || given->pool_slots > 1 << 24)
        return tt_experiment_wrong(self, given, "pool_slots", why,
                                   "pool_slots is %d; it must be 1 .. 16777216", given->pool_slots);
    out->pool_slots = given->pool_slots;
    if (!tt_experiment_ns(given->busy_until_ms, TT_MS, &out->busy_until_at))
        return tt_experiment_wrong(self, given, "busy_until_ms", why,
                                   "busy_until_ms is %g; it must be >= 0", given->busy_until_ms);
    if (!copy_engine(given->copy_in, &out->copy_in) ||
        !copy_engine(given->copy_out, &out->copy_out))
        return tt_experiment_wrong(self, given, NULL, why,
                                   "copy engines: fixed_us and gb_per_s must be >= 0");
    return TT_OK;
}

static enum tt_err build_devices(const struct tt_experiment *self, struct tt_scenario *scenario,
                                 struct tt_error *why) {
    const Tutti__Experiment *message = self->message;
    if (message->n_device == 0)
        return tt_experiment_wrong(self, NULL, NULL, why, "no device; add device { count: 1 }");
    int64_t count = 0;
    for (size_t i = 0; i < message->n_device; i++)
        count += message->device[i]->count > 0 ? message->device[i]->count : 1;
    scenario->devices =
        tt_allocate(count <= MAX_DEVICES ? (size_t)count : 1, sizeof(*scenario->devices));
    for (size_t i = 0; i < message->n_device; i++) {
        const Tutti__ExperimentDevice *given = message->device[i];
        struct tt_sim_device device = {0};
        enum tt_err err = check_device(self, given, &device, why);
        if (!err && count > MAX_DEVICES)
            err =
                tt_experiment_wrong(self, given, "count", why, "more than %d devices", MAX_DEVICES);
        if (err)
            return err;
        for (int32_t k = 0; k < (given->count > 0 ? given->count : 1); k++)
            scenario->devices[scenario->device_count++] = device;
    }
    return TT_OK;
}

/* ---- load ---- */

/* Requests per second in millionths; false: not 0 and not 0.001 .. 10^9. */
static bool rate_of(double rate, int64_t *out_rate) {
    if (!(rate >= 0 && rate <= 1e9))
        return false;
    *out_rate = (int64_t)(rate * (double)TT_RATE_ONE + 0.5);
    return *out_rate == 0 || *out_rate >= TT_RATE_SMALLEST;
}

static enum tt_err wrong_rate(const struct tt_experiment *self, const void *message,
                              const char *field, double rate, struct tt_error *why) {
    return tt_experiment_wrong(self, message, field, why,
                               "%s is %g requests per second; it must be 0, or 0.001 .. 10^9",
                               field, rate);
}

static enum tt_err build_segments(const struct tt_experiment *self, struct tt_scenario *scenario,
                                  const Tutti__ExperimentLoad *load, struct tt_error *why) {
    scenario->segments = tt_allocate(load->n_segment, sizeof(*scenario->segments));
    scenario->segment_count = (int32_t)load->n_segment;
    for (size_t i = 0; i < load->n_segment; i++) {
        const Tutti__RateSegment *given = load->segment[i];
        if (!rate_of(given->rate, &scenario->segments[i].rate))
            return wrong_rate(self, given, "rate", given->rate, why);
        if (!(given->duration_s > 0) ||
            !tt_experiment_ns(given->duration_s, TT_S, &scenario->segments[i].duration_ns))
            return tt_experiment_wrong(self, given, "duration_s", why,
                                       "duration_s is %g; a segment lasts more than 0 s",
                                       given->duration_s);
    }
    return TT_OK;
}

static enum tt_err build_perturbations(const struct tt_experiment *self,
                                       struct tt_scenario *scenario, struct tt_error *why) {
    const Tutti__Experiment *message = self->message;
    scenario->learns = message->learn;
    scenario->perturbations = tt_allocate(message->n_perturb + 1, sizeof(*scenario->perturbations));
    scenario->perturbation_count = (int32_t)message->n_perturb;
    int64_t last_at = 0;
    for (size_t i = 0; i < message->n_perturb; i++) {
        const Tutti__ExperimentPerturbation *given = message->perturb[i];
        struct tt_perturbation *span = &scenario->perturbations[i];
        bool open_ended = given->until_s == 0;
        if (!tt_experiment_ns(given->from_s, TT_S, &span->from_at) || span->from_at < last_at)
            return tt_experiment_wrong(self, given, "from_s", why,
                                       "from_s is %g; a span begins at 0 or later, and not before "
                                       "the end of the one above it",
                                       given->from_s);
        span->until_at = TT_NEVER / 4;
        if (!open_ended && (!tt_experiment_ns(given->until_s, TT_S, &span->until_at) ||
                            span->until_at <= span->from_at))
            return tt_experiment_wrong(self, given, "until_s", why,
                                       "until_s is %g; a span ends after from_s (%g)",
                                       given->until_s, given->from_s);
        if (!(given->speed >= 0 && given->speed <= 1000) ||
            ((open_ended || given->at_start) && given->speed < 0.001))
            return tt_experiment_wrong(self, given, "speed", why,
                                       "speed is %g; it must be 0 .. 1000, and not 0 in a span "
                                       "without an end or at_start",
                                       given->speed);
        if (given->jump && (open_ended || given->at_start || given->speed > 0))
            return tt_experiment_wrong(self, given, "jump", why,
                                       "a jump of the clock has from_s and until_s, no speed, and "
                                       "no at_start");
        span->jumps = given->jump;
        span->at_start = given->at_start;
        span->speed_permille = (int32_t)(given->speed * TT_SPEED_NORMAL + 0.5);
        last_at = span->until_at;
    }
    return TT_OK;
}

static enum tt_err build_noise(const struct tt_experiment *self, struct tt_scenario *scenario,
                               struct tt_error *why) {
    const Tutti__ExperimentNoise *given = self->message->noise;
    if (!given)
        return TT_OK;
    if (!(given->spread >= 0 && given->spread <= 1))
        return tt_experiment_wrong(self, given, "spread", why, "spread is %g; it must be 0 .. 1",
                                   given->spread);
    if (!(given->outliers >= 0 && given->outliers <= 1))
        return tt_experiment_wrong(self, given, "outliers", why,
                                   "outliers is %g; it must be 0 .. 1", given->outliers);
    if (given->outlier_factor < 0 || given->outlier_factor > 1000)
        return tt_experiment_wrong(self, given, "outlier_factor", why,
                                   "outlier_factor is %d; it must be 1 .. 1000",
                                   given->outlier_factor);
    scenario->noise = (struct tt_noise){
        .spread_permille = (int32_t)(given->spread * 1000 + 0.5),
        .outlier_permille = (int32_t)(given->outliers * 1000 + 0.5),
        .outlier_times = given->outlier_factor > 0 ? given->outlier_factor : OUTLIER_FACTOR};
    return TT_OK;
}

static enum tt_err build_steps(const struct tt_experiment *self, struct tt_scenario *scenario,
                               const Tutti__RateSteps *steps, struct tt_error *why) {
    if (steps->every < 1)
        return tt_experiment_wrong(self, steps, "every", why,
                                   "every is %lld requests; it must be >= 1",
                                   (long long)steps->every);
    if (scenario->rate == 0)
        return tt_experiment_wrong(self, steps, NULL, why,
                                   "steps need a rate > 0 to start from (load { rate: ... })");
    if (!rate_of(steps->increment, &scenario->step_rate))
        return wrong_rate(self, steps, "increment", steps->increment, why);
    if (!rate_of(steps->maximum, &scenario->step_maximum) ||
        scenario->step_maximum < scenario->rate)
        return tt_experiment_wrong(self, steps, "maximum", why,
                                   "maximum is %g; it must be at least the rate to start from",
                                   steps->maximum);
    scenario->step_every = steps->every;
    return TT_OK;
}

static enum tt_err build_popularity(const struct tt_experiment *self, struct tt_scenario *scenario,
                                    const Tutti__Popularity *popularity, struct tt_error *why) {
    bool given = popularity && popularity->given;
    double zipf = popularity ? popularity->zipf : 0;
    if (!(zipf >= 0 && zipf <= 10) || (given && zipf > 0))
        return tt_experiment_wrong(self, popularity, "zipf", why,
                                   "zipf is %g; it must be 0 .. 10, and not beside given: true",
                                   zipf);
    int32_t count = scenario->model_count;
    int64_t *weights = tt_allocate((size_t)count, sizeof(*weights));
    int64_t sum = 0;
    tt_arrivals_zipf((int64_t)(zipf * 1e6 + 0.5), count, weights);
    for (int32_t m = 0; m < count; m++) {
        if (!given)
            scenario->models[m].weight = weights[m];
        sum += scenario->models[m].weight;
    }
    free(weights);
    if (sum == 0)
        return tt_experiment_wrong(self, popularity, "given", why,
                                   "popularity is given, but no model has a weight > 0");
    return TT_OK;
}

static enum tt_err build_process(const struct tt_experiment *self, struct tt_scenario *scenario,
                                 const Tutti__ExperimentLoad *load, struct tt_error *why) {
    switch (load->process) {
    case TUTTI__ARRIVAL_PROCESS__POISSON: scenario->process = TT_PROCESS_POISSON; break;
    case TUTTI__ARRIVAL_PROCESS__GAMMA: scenario->process = TT_PROCESS_GAMMA; break;
    case TUTTI__ARRIVAL_PROCESS__UNIFORM: scenario->process = TT_PROCESS_UNIFORM; break;
    default:
        return tt_experiment_wrong(self, load, "process", why,
                                   "the process must be POISSON, GAMMA or UNIFORM");
    }
    if (scenario->process != TT_PROCESS_GAMMA) {
        if (load->shape != 0)
            return tt_experiment_wrong(self, load, "shape", why,
                                       "shape is for process: GAMMA only");
        return TT_OK;
    }
    if (!(load->shape >= 0.01 && load->shape <= 1000))
        return tt_experiment_wrong(self, load, "shape", why,
                                   "shape is %g; GAMMA needs one of 0.01 .. 1000", load->shape);
    scenario->shape_ppm = (int64_t)(load->shape * 1e6 + 0.5);
    return TT_OK;
}

static enum tt_err build_load(const struct tt_experiment *self, struct tt_scenario *scenario,
                              struct tt_error *why) {
    const Tutti__ExperimentLoad *load = self->message->load;
    const char *file = load ? load->file : "";
    if (self->arrivals || *file) {
        scenario->arrivals_path =
            self->arrivals ? tt_copy_text(self->arrivals) : tt_experiment_path(self, file);
        scenario->duration_ns = TT_NEVER;
        if (load && *file && (load->rate != 0 || load->n_segment > 0))
            return tt_experiment_wrong(self, load, "file", why,
                                       "a file of arrivals takes the place of rate and segments");
        return TT_OK;
    }
    if (!load)
        return tt_experiment_wrong(self, NULL, NULL, why, "no load; add load { rate: 100 }");
    int32_t ways = (load->rate != 0) + (load->interval_us != 0) + (load->n_segment > 0);
    if (ways != 1)
        return tt_experiment_wrong(
            self, load, NULL, why,
            "the load needs exactly one of rate, interval_us, segment, file");
    if (!rate_of(load->rate, &scenario->rate))
        return wrong_rate(self, load, "rate", load->rate, why);
    if (load->interval_us != 0 &&
        (!tt_experiment_ns(load->interval_us, TT_US, &scenario->interval_ns) ||
         scenario->interval_ns < 1))
        return tt_experiment_wrong(self, load, "interval_us", why,
                                   "interval_us is %g; it must be at least 0.001",
                                   load->interval_us);
    enum tt_err err = build_process(self, scenario, load, why);
    if (!err && load->n_segment > 0)
        err = build_segments(self, scenario, load, why);
    if (!err && load->steps)
        err = build_steps(self, scenario, load->steps, why);
    return err ? err : build_popularity(self, scenario, load->popularity, why);
}

/* ---- the rest ---- */

static enum tt_err check_policy(const struct tt_experiment *self,
                                const Tutti__ExperimentPolicy *given, const char *name,
                                struct tt_error *why) {
    char names[512];
    if (tt_policy_is_auto(name))
        return tt_experiment_wrong(self, given, "name", why,
                                   "auto is the choice of a server that serves; an experiment "
                                   "needs one policy: %s",
                                   tt_policy_names(NULL, names, sizeof(names)));
    return tt_policy_find(name)
               ? TT_OK
               : tt_experiment_wrong(self, given, "name", why,
                                     "no policy is called '%s'; there are: %s", name,
                                     tt_policy_names(NULL, names, sizeof(names)));
}

enum { FOUND_OPTIONS = 3 }; /* that a search for workers adds */

static enum tt_err copy_options(const struct tt_experiment *self,
                                const Tutti__ExperimentPolicy *given, char ***out_texts,
                                int32_t *out_count, struct tt_error *why) {
    size_t count = given ? given->n_option : 0;
    if (count > TT_MAX_OPTIONS - FOUND_OPTIONS)
        return tt_experiment_wrong(self, given, "option", why, "%zu options; at most %d", count,
                                   TT_MAX_OPTIONS - FOUND_OPTIONS);
    char **texts = tt_allocate(2 * (count + FOUND_OPTIONS), sizeof(*texts));
    for (size_t i = 0; i < count; i++) {
        texts[2 * i] = tt_copy_text(given->option[i]->key);
        texts[2 * i + 1] = tt_copy_text(given->option[i]->value);
    }
    *out_texts = texts;
    *out_count = (int32_t)count;
    return TT_OK;
}

static enum tt_err check_options(const struct tt_experiment *self,
                                 const Tutti__ExperimentPolicy *given,
                                 const struct tt_policy_kind *kind, char *const *texts,
                                 int32_t count, struct tt_error *why) {
    int64_t values[TT_MAX_OPTIONS];
    struct tt_option options[TT_MAX_OPTIONS];
    struct tt_error inner = {0};
    for (ptrdiff_t i = 0; i < count; i++)
        options[i] = (struct tt_option){.key = texts[2 * i], .value = texts[2 * i + 1]};
    return tt_options_parse(kind->options, kind->option_count, options, count, values, &inner)
               ? tt_experiment_wrong(self, given, "option", why, "policy %s: %s", kind->name,
                                     inner.text)
               : TT_OK;
}

static enum tt_err build_policy(const struct tt_experiment *self, struct tt_scenario *scenario,
                                struct tt_error *why) {
    const Tutti__ExperimentPolicy *given = self->message->policy;
    struct tt_policy_facts facts = {.has_objective = true};
    const char *name = given && given->name[0] ? given->name : tt_policy_default(&facts)->name;
    enum tt_err err = check_policy(self, given, name, why);
    if (err)
        return err;
    scenario->policy = tt_copy_text(name);
    err = copy_options(self, given, &scenario->option_texts, &scenario->option_count, why);
    if (!err)
        err = tt_experiment_find_workers(self, scenario, why);
    if (err)
        return err;
    const struct tt_policy_kind *kind = tt_policy_find(name);
    if (scenario->depth == 0)
        scenario->depth = kind->traits.default_depth;
    return check_options(self, given, kind, scenario->option_texts, scenario->option_count, why);
}

/* Composition. */
static enum tt_err build_inside(const struct tt_experiment *self, struct tt_scenario *scenario,
                                struct tt_error *why) {
    enum { MAX_EXECUTORS = 1024 };
    const Tutti__ExperimentInside *message = self->message->inside;
    struct tt_scenario_inside *inside = &scenario->inside;
    if (!message)
        return TT_OK;
    const Tutti__ExperimentPolicy *given = message->policy;
    if (!given || !given->name[0] || given->workers[0])
        return tt_experiment_wrong(self, message, "policy", why,
                                   "inside a device a policy is named, without a search for "
                                   "workers: policy { name: \"diversity\" }");
    enum tt_err err = check_policy(self, given, given->name, why);
    if (err)
        return err;
    const struct tt_policy_kind *kind = tt_policy_find(given->name);
    if (!kind->traits.composes)
        return tt_experiment_wrong(self, given, "name", why,
                                   "policy %s runs whole batches, and so leaves nothing to decide "
                                   "to a scheduler before it: leave inside out",
                                   given->name);
    if (message->executors < 0 || message->executors > MAX_EXECUTORS || message->depth < 0 ||
        message->depth > MAX_EXECUTORS)
        return tt_experiment_wrong(self, message, NULL, why,
                                   "executors is %d and depth %d; both must be 1 .. %d",
                                   message->executors, message->depth, MAX_EXECUTORS);
    inside->policy = tt_copy_text(given->name);
    inside->executors = message->executors ? message->executors : 1;
    inside->depth = message->depth ? message->depth : kind->traits.default_depth;
    err = copy_options(self, given, &inside->option_texts, &inside->option_count, why);
    return err ? err
               : check_options(self, given, kind, inside->option_texts, inside->option_count, why);
}

static enum tt_err build_times(const struct tt_experiment *self, struct tt_scenario *scenario,
                               struct tt_error *why) {
    const Tutti__Experiment *message = self->message;
    double duration_s = message->duration_s != 0 ? message->duration_s : DEFAULT_DURATION_S;
    if (!tt_experiment_ns(duration_s, TT_S, &scenario->duration_ns) || scenario->duration_ns < 1)
        return tt_experiment_wrong(self, message, "duration_s", why,
                                   "duration_s is %g; it must be > 0 and at most 10^6", duration_s);
    if (!tt_experiment_ns(message->warm_up_s, TT_S, &scenario->warm_up_ns) ||
        scenario->warm_up_ns >= scenario->duration_ns)
        return tt_experiment_wrong(self, message, "warm_up_s", why,
                                   "warm_up_s is %g; it must be >= 0 and below duration_s (%g)",
                                   message->warm_up_s, duration_s);
    if (message->requests < 0)
        return tt_experiment_wrong(self, message, "requests", why,
                                   "requests is %lld; it must be >= 0",
                                   (long long)message->requests);
    scenario->request_limit = message->requests;
    if (!tt_experiment_ns(message->abort_ms, TT_MS, &scenario->abort_ns))
        return tt_experiment_wrong(self, message, "abort_ms", why,
                                   "abort_ms is %g; it must be >= 0", message->abort_ms);
    if (!(message->jitter >= 0 && message->jitter < 1))
        return tt_experiment_wrong(self, message, "jitter", why,
                                   "jitter is %g; it must be 0 .. 0.999", message->jitter);
    scenario->jitter_permille = (int32_t)(message->jitter * 1000 + 0.5);
    const Tutti__ExperimentNetwork *network = message->network;
    if (network && (!tt_experiment_ns(network->control_us, TT_US, &scenario->d_ctrl_ns) ||
                    !tt_experiment_ns(network->data_us_per_row, TT_US, &scenario->d_data_ns)))
        return tt_experiment_wrong(self, network, NULL, why, "network delays must be >= 0");
    scenario->learns_delays = network && network->learn;
    if (message->depth < 0 || message->depth > 1024)
        return tt_experiment_wrong(self, message, "depth", why, "depth is %d; it must be 1 .. 1024",
                                   message->depth);
    scenario->depth = message->depth; /* 0: the default of the policy */
    if (message->seed < 0)
        return tt_experiment_wrong(self, message, "seed", why, "seed is %lld; it must be >= 0",
                                   (long long)message->seed);
    scenario->seed = (uint64_t)message->seed;
    return TT_OK;
}

/* E1: a pool of inputs requires a single device and a policy that waits for `ready`. */
static enum tt_err check_pool(const struct tt_experiment *self, const struct tt_scenario *scenario,
                              struct tt_error *why) {
    const Tutti__ExperimentDevice *given = self->message->device[0];
    for (size_t i = 0; i < self->message->n_device; i++)
        if (self->message->device[i]->pool_slots > 0)
            given = self->message->device[i];
    if (given->pool_slots == 0)
        return TT_OK;
    if (scenario->device_count > 1 && !scenario->inside.policy)
        return tt_experiment_wrong(self, given, "pool_slots", why,
                                   "a pool of inputs needs a single device; there are %d",
                                   scenario->device_count);
    const char *policy = scenario->inside.policy ? scenario->inside.policy : scenario->policy;
    if (!tt_policy_find(policy)->traits.waits_for_inputs)
        return tt_experiment_wrong(self, given, "pool_slots", why,
                                   "policy %s does not wait for inputs; elastic does, or leave "
                                   "pool_slots out",
                                   policy);
    for (int32_t m = 0; m < scenario->model_count; m++)
        if (scenario->models[m].rows > given->pool_slots)
            return tt_experiment_wrong(self, given, "pool_slots", why,
                                       "pool_slots is %d, but a request of model %s has %d rows",
                                       given->pool_slots, scenario->models[m].name,
                                       scenario->models[m].rows);
    return TT_OK;
}

static enum tt_world world_of(const Tutti__Experiment *message) {
    switch (message->world) {
    case TUTTI__EXPERIMENT_WORLD__EMULATED: return TT_WORLD_EMULATED;
    case TUTTI__EXPERIMENT_WORLD__REAL: return TT_WORLD_REAL;
    case TUTTI__EXPERIMENT_WORLD__CLUSTER: return TT_WORLD_CLUSTER;
    case TUTTI__EXPERIMENT_WORLD__SIMULATED:
    default: return TT_WORLD_SIMULATED;
    }
}

enum tt_err tt_experiment_build(const struct tt_experiment *self, struct tt_scenario *out_scenario,
                                struct tt_error *why) {
    struct tt_scenario scenario = {.world = world_of(self->message)};
    if (self->message->repository[0])
        scenario.repository = tt_experiment_path(self, self->message->repository);
    enum tt_err err = build_times(self, &scenario, why);
    if (!err)
        err = build_perturbations(self, &scenario, why);
    if (!err)
        err = build_noise(self, &scenario, why);
    if (!err)
        err = build_devices(self, &scenario, why);
    if (!err)
        err = tt_experiment_build_models(self, &scenario, why);
    if (!err)
        err = build_load(self, &scenario, why);
    if (!err)
        err = build_policy(self, &scenario, why);
    if (!err)
        err = build_inside(self, &scenario, why);
    if (!err)
        err = check_pool(self, &scenario, why);
    if (!err)
        err = tt_experiment_build_cluster(self, &scenario, why);
    if (!err)
        err = tt_experiment_check_world(self, &scenario, why);
    if (err) {
        tt_scenario_fini(&scenario);
        return err;
    }
    *out_scenario = scenario;
    return TT_OK;
}
