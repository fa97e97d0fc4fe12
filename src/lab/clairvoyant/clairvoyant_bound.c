#include "lab/clairvoyant/clairvoyant_bound.h"

#include "base/instant.h"
#include "lab/clairvoyant/batch_partition.h"
#include "lab/scenario/allocate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A round looks at each cell once per model and batch size: at most so many looks. */
enum { CELLS_PER_BATCH = 16, MAX_LOOKS = 1 << 24, ALL_STEPS = 64, FEW_STEPS = 7, WIDER = 2 };
enum { PATIENCE = 20 }; /* rounds that may pass without a gain */
static const double GAIN = 0.001, FIRST_STEP = 0.5, SHORTER = 0.7, LONGER = 1.2, MAX_EXPONENT = 1;

struct ascent {
    const struct tt_clairvoyant_case *given;
    const struct tt_clairvoyant_options *options;
    struct tt_device_prices prices;
    struct tt_batch_costs *costs;          /* [model_count] */
    struct tt_batch_partition *partitions; /* [model_count] */
    int64_t *values;                       /* of a request of each model; 0: not known yet */
    int64_t first_value;                   /* no request costs more at equal prices */
    double *weights;                       /* of the prices: [cell_count] */
    double *load;                          /* [padded + 1] */
    double step;                           /* of the ascent: shorter after a worse round */
    double last_load;                      /* of the round before */
    double gained_load;                    /* the last one that was a gain */
    int32_t gained_round;
    struct tt_clairvoyant_bound out;
};

/* ---- what is proved at these prices ---- */

/* The values among which to search; halving ends at one of them. */
struct range {
    int64_t low, high;
    int32_t steps;
};

/* Around the value of the round before. All of them are small enough for the sums of a partition.
 */
static struct range values_around(const struct ascent *a, int64_t value, int64_t requests) {
    int64_t highest = (INT64_C(1) << 61) / (requests + 1);
    if (value == 0)
        return (struct range){1, tt_instant_min(a->first_value, highest), ALL_STEPS};
    int64_t high = value < highest / WIDER ? value * WIDER : highest;
    return (struct range){value / WIDER + 1, high, FEW_STEPS};
}

static int64_t middle(const struct range *range) {
    return range->low + (range->high - range->low) / 2;
}

static void narrow(struct range *range, bool is_low) {
    if (is_low)
        range->low = middle(range) + 1;
    else
        range->high = middle(range);
    range->steps = range->low < range->high ? range->steps - 1 : 0;
}

/* Requests that fit into a batch of one at least. */
static int64_t servable(const struct ascent *a, int32_t m) {
    int64_t count = 0;
    for (int32_t f = 0; f < a->given->models[m].count; f++)
        count += tt_clairvoyant_model_fits(&a->given->models[m], f, 1);
    return count;
}

static void note_load(struct ascent *a, double load) {
    a->out.load = load > a->out.load ? load : a->out.load;
    a->step *= load < a->last_load ? SHORTER : LONGER;
    a->last_load = load;
}

/* What `wanted` requests of a model cost at least. */
static __int128 cost_of(struct ascent *a, int32_t m, int64_t wanted) {
    struct tt_batch_partition *partition = &a->partitions[m];
    struct range range = values_around(a, a->values[m], a->given->models[m].count);
    __int128 most = -1;
    while (range.steps > 0) {
        int64_t value = middle(&range);
        __int128 cost = tt_batch_partition_solve(partition, value) + (__int128)value * wanted;
        if (cost > most) {
            most = cost;
            a->values[m] = value;
        }
        narrow(&range, partition->served < wanted);
    }
    (void)tt_batch_partition_solve(partition, a->values[m]); /* for its load */
    return most;
}

/* Whether the wanted requests cost more than there is. */
static void judge_wanted(struct ascent *a, __int128 all) {
    __int128 cost = 0;
    bool fits = true;
    for (int32_t m = 0; m < a->given->model_count; m++) {
        tt_assert(a->options->wanted[m] >= 0);
        tt_assert(a->options->wanted[m] <= a->given->models[m].count);
        fits = fits && a->options->wanted[m] <= servable(a, m);
        cost += cost_of(a, m, a->options->wanted[m]);
    }
    a->out.impossible = a->out.impossible || !fits || cost > all;
    note_load(a, fits ? (double)cost / (double)all : INFINITY);
}

/* The sum of all models' bounds at one value. */
static __int128 solve_all(struct ascent *a, int64_t value, int64_t *out_served) {
    __int128 sum = 0;
    *out_served = 0;
    for (int32_t m = 0; m < a->given->model_count; m++) {
        sum += tt_batch_partition_solve(&a->partitions[m], value);
        *out_served += a->partitions[m].served;
    }
    return sum;
}

/* n requests cost at least sum + value * n, which is at most `all`. */
static void judge_most(struct ascent *a, __int128 all) {
    struct range range = values_around(a, a->values[0], a->out.requests);
    double least = INFINITY;
    int64_t served, possible = 0;
    for (int32_t m = 0; m < a->given->model_count; m++)
        possible += servable(a, m);
    a->out.most = a->out.most < possible ? a->out.most : possible;
    while (range.steps > 0) {
        int64_t value = middle(&range);
        __int128 rest = all - solve_all(a, value, &served), most = rest / value;
        if (most < a->out.most)
            a->out.most = (int64_t)most;
        if ((double)rest / (double)value < least) {
            least = (double)rest / (double)value;
            a->values[0] = value;
        }
        narrow(&range, served < most);
    }
    __int128 sum = solve_all(a, a->values[0], &served);
    int64_t next = a->out.most < a->out.requests ? a->out.most + 1 : a->out.most;
    note_load(a, ((double)sum + (double)a->values[0] * (double)next) / (double)all);
}

static void judge(struct ascent *a) {
    for (int32_t m = 0; m < a->given->model_count; m++)
        tt_batch_costs_find(&a->costs[m], &a->prices);
    __int128 all = (__int128)tt_device_prices_total(&a->prices) * a->given->device_count;
    if (a->options->wanted)
        judge_wanted(a, all);
    else
        judge_most(a, all);
}

/* ---- better prices ---- */

/* Raises the prices where the load exceeds the devices, and lowers the others. */
static void raise_prices(struct ascent *a) {
    int32_t cells = a->prices.cell_count;
    memset(a->load, 0, ((size_t)a->prices.padded + 1) * sizeof(*a->load));
    for (int32_t m = 0; m < a->given->model_count; m++)
        tt_batch_partition_add_load(&a->partitions[m], a->prices.cell_ns, a->load);
    double load = 0, sum = 0;
    for (int32_t c = 0; c < cells; c++) {
        load += a->load[c];
        double exponent = a->step * (load / a->given->device_count - 1);
        a->weights[c] *= exp(exponent < MAX_EXPONENT ? exponent : MAX_EXPONENT);
        sum += a->weights[c];
    }
    for (int32_t c = 0; c < cells; c++)
        a->weights[c] *= cells / sum;
}

static bool ended(struct ascent *a) {
    if (a->options->stop && *a->options->stop)
        a->out.interrupted = true;
    return a->out.interrupted || a->out.impossible;
}

/* Further rounds would prove hardly more. */
static bool stalled(struct ascent *a, int32_t round) {
    if (a->out.load > a->gained_load + GAIN) {
        a->gained_load = a->out.load;
        a->gained_round = round;
    }
    return round - a->gained_round >= PATIENCE;
}

static void climb(struct ascent *a) {
    for (int32_t round = 0; round < a->options->rounds && !ended(a) && !stalled(a, round);
         round++) {
        tt_device_prices_set(&a->prices, a->weights);
        judge(a);
        raise_prices(a);
        a->out.rounds = round + 1;
        if (a->options->progress)
            a->options->progress(a->options->progress_context, round + 1, a->options->rounds);
    }
    if (a->options->progress && a->out.rounds < a->options->rounds)
        a->options->progress(a->options->progress_context, a->options->rounds, a->options->rounds);
}

/* ---- one call ---- */

struct extent {
    int64_t from_at, until_at;
    int64_t shortest_ns, longest_ns; /* batches */
    int64_t batch_sizes;             /* over all models */
};

static struct extent extent_of(const struct tt_clairvoyant_case *given) {
    struct extent out = {.from_at = TT_NEVER, .until_at = INT64_MIN, .shortest_ns = TT_NEVER};
    for (int32_t m = 0; m < given->model_count; m++) {
        const struct tt_clairvoyant_model *model = &given->models[m];
        if (model->count == 0)
            continue;
        out.from_at = tt_instant_min(out.from_at, model->arrived_at[0]);
        out.until_at = tt_instant_max(out.until_at, model->deadline_at[model->count - 1]);
        out.shortest_ns = tt_instant_min(out.shortest_ns, model->latency_ns[1]);
        int32_t largest = tt_clairvoyant_model_largest(model);
        out.longest_ns = tt_instant_max(out.longest_ns, model->latency_ns[largest]);
        out.batch_sizes += largest;
    }
    bool is_empty = out.from_at == TT_NEVER;
    if (!is_empty && out.until_at <= out.from_at) /* no deadline can be met: any extent will do */
        out.until_at = out.from_at + 1;
    return out;
}

static void begin(struct ascent *a, const struct extent *extent) {
    int64_t length_ns = extent->until_at - extent->from_at;
    int64_t cell_ns = tt_instant_max(extent->shortest_ns / CELLS_PER_BATCH,
                                     length_ns / (MAX_LOOKS / (extent->batch_sizes + 1) + 1) + 1);
    tt_device_prices_init(&a->prices, extent->from_at, extent->until_at, cell_ns,
                          extent->longest_ns);
    size_t cells = (size_t)a->prices.cell_count, models = (size_t)a->given->model_count;
    a->costs = tt_allocate(models, sizeof(*a->costs));
    a->partitions = tt_allocate(models, sizeof(*a->partitions));
    for (size_t m = 0; m < models; m++) {
        tt_batch_costs_init(&a->costs[m], &a->given->models[m], &a->prices);
        tt_batch_partition_init(&a->partitions[m], &a->costs[m]);
    }
    a->values = tt_allocate(models, sizeof(*a->values));
    a->first_value = (extent->longest_ns + 1) * TT_DEVICE_PRICE_MEAN;
    a->weights = tt_allocate(cells, sizeof(*a->weights));
    a->load = tt_allocate((size_t)a->prices.padded + 1, sizeof(*a->load));
    for (size_t c = 0; c < cells; c++)
        a->weights[c] = 1;
}

static void end(struct ascent *a) {
    for (int32_t m = 0; m < a->given->model_count; m++) {
        tt_batch_partition_fini(&a->partitions[m]);
        tt_batch_costs_fini(&a->costs[m]);
    }
    free(a->partitions);
    free(a->costs);
    free(a->values);
    free(a->weights);
    free(a->load);
    tt_device_prices_fini(&a->prices);
}

enum tt_err tt_clairvoyant_bound(const struct tt_clairvoyant_case *given,
                                 const struct tt_clairvoyant_options *options,
                                 struct tt_clairvoyant_bound *out_bound, struct tt_error *why) {
    tt_assert(options->rounds >= 1);
    struct ascent a = {.given = given, .options = options, .step = FIRST_STEP};
    a.out.requests = a.out.most = tt_clairvoyant_case_requests(given);
    struct extent extent = extent_of(given);
    if (a.out.requests > 0 && extent.until_at - extent.from_at > TT_DEVICE_PRICES_MAX_NS)
        return tt_fail(TT_ERR_INVALID, why,
                       "the clairvoyant bound covers at most %d s of arrivals; state a shorter "
                       "`duration_s`",
                       (int)(TT_DEVICE_PRICES_MAX_NS / TT_S));
    if (a.out.requests > 0) {
        begin(&a, &extent);
        climb(&a);
        end(&a);
    }
    *out_bound = a.out;
    return TT_OK;
}
