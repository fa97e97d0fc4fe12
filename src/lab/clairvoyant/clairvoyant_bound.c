#include "lab/clairvoyant/clairvoyant_bound.h"

#include "base/instant.h"
#include "base/sort.h"
#include "lab/clairvoyant/request_charges.h"
#include "lab/scenario/allocate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A round looks at each cell once per model and batch size: at most so many looks. */
enum { CELLS_PER_BATCH = 16, MAX_LOOKS = 1 << 24 };
static const double FIRST_STEP = 2, SHORTER = 0.85, LONGER = 1.05, MAX_EXPONENT = 1;

struct ascent {
    const struct tt_clairvoyant_case *given;
    const struct tt_clairvoyant_options *options;
    struct tt_device_prices prices;
    struct tt_request_charges *charges; /* [model_count] */
    double *weights;                    /* of the prices: [cell_count] */
    double step;                        /* of the ascent: shorter after a worse round */
    double last_load;                   /* of the round before */
    double *load;                       /* [padded + 1], of all devices */
    int64_t *sorted;                    /* all charges */
    int64_t *limit;                     /* [model_count]: higher charges are not wanted */
    struct tt_clairvoyant_bound out;
};

/* ---- what is proved at these prices ---- */

/* The sum of the first `count`; false: one of them fits into no batch. */
static bool add_charges(const int64_t *sorted, int64_t count, __int128 *to) {
    for (int64_t i = 0; i < count; i++)
        *to += sorted[i];
    return count == 0 || sorted[count - 1] != TT_NEVER;
}

static void note_load(struct ascent *a, bool fits, __int128 cost, __int128 all) {
    double load = !fits ? INFINITY : all > 0 ? (double)cost / (double)all : 0;
    a->out.load = load > a->out.load ? load : a->out.load;
    a->step *= load < a->last_load ? SHORTER : LONGER;
    a->last_load = load;
}

/* Whether the wanted requests cost more than there is. Sets the limits. */
static void judge_wanted(struct ascent *a, __int128 all) {
    __int128 cost = 0;
    bool fits = true;
    for (int32_t m = 0; m < a->given->model_count; m++) {
        int32_t count = a->given->models[m].count;
        int64_t wanted = a->options->wanted[m];
        tt_assert(wanted >= 0);
        tt_assert(wanted <= count);
        memcpy(a->sorted, a->charges[m].charge, (size_t)count * sizeof(*a->sorted));
        tt_sort_int64(a->sorted, count);
        fits = add_charges(a->sorted, wanted, &cost) && fits;
        a->limit[m] = wanted > 0 ? a->sorted[wanted - 1] : -1;
    }
    a->out.impossible = a->out.impossible || !fits || cost > all;
    note_load(a, fits, cost, all);
}

/* How many of the smallest charges sum up to at most `all`. Sets the limits. */
static void judge_most(struct ascent *a, __int128 all) {
    int64_t count = 0;
    for (int32_t m = 0; m < a->given->model_count; m++) {
        size_t own = (size_t)a->given->models[m].count;
        memcpy(&a->sorted[count], a->charges[m].charge, own * sizeof(*a->sorted));
        count += (int64_t)own;
    }
    tt_sort_int64(a->sorted, (int32_t)count);
    __int128 cost = 0;
    int64_t most = 0;
    while (most < count && a->sorted[most] != TT_NEVER && cost + a->sorted[most] <= all)
        cost += a->sorted[most++];
    a->out.most = most < a->out.most ? most : a->out.most;
    int64_t target = a->out.most < count ? a->out.most : count - 1;
    for (int32_t m = 0; m < a->given->model_count; m++)
        a->limit[m] = count > 0 ? a->sorted[target] : -1;
    if (most < count)
        cost += a->sorted[most];
    note_load(a, most == count || a->sorted[most] != TT_NEVER, cost, all);
}

static void judge(struct ascent *a) {
    for (int32_t m = 0; m < a->given->model_count; m++)
        tt_request_charges_find(&a->charges[m], &a->prices);
    __int128 all = (__int128)tt_device_prices_total(&a->prices) * a->given->device_count;
    if (a->options->wanted)
        judge_wanted(a, all);
    else
        judge_most(a, all);
}

/* ---- better prices ---- */

static void add_load(struct ascent *a, const struct tt_request_charges *charges, int64_t limit) {
    int64_t cell_ns = a->prices.cell_ns;
    for (int32_t j = 0; j < charges->model->count; j++) {
        if (charges->charge[j] > limit || charges->charge[j] == TT_NEVER)
            continue;
        int64_t latency_ns = charges->model->latency_ns[charges->batch[j]];
        double share = 1.0 / charges->batch[j];
        double part = (double)(latency_ns % cell_ns) / (double)cell_ns;
        int64_t first = charges->cell[j], last = first + latency_ns / cell_ns;
        a->load[first] += share;
        a->load[last] -= share * (1 - part);
        a->load[last + 1] -= share * part;
    }
}

/* Raises the prices where the load exceeds the devices, and lowers the others. */
static void raise_prices(struct ascent *a) {
    int32_t cells = a->prices.cell_count;
    memset(a->load, 0, ((size_t)a->prices.padded + 1) * sizeof(*a->load));
    for (int32_t m = 0; m < a->given->model_count; m++)
        add_load(a, &a->charges[m], a->limit[m]);
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

static void climb(struct ascent *a) {
    for (int32_t round = 0; round < a->options->rounds && !ended(a); round++) {
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
    if (out.until_at <= out.from_at) /* no deadline can be met: any extent will do */
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
    a->charges = tt_allocate(models, sizeof(*a->charges));
    for (size_t m = 0; m < models; m++)
        tt_request_charges_init(&a->charges[m], &a->given->models[m], &a->prices);
    a->weights = tt_allocate(cells, sizeof(*a->weights));
    a->load = tt_allocate((size_t)a->prices.padded + 1, sizeof(*a->load));
    a->sorted = tt_allocate((size_t)a->out.requests + 1, sizeof(*a->sorted));
    a->limit = tt_allocate(models, sizeof(*a->limit));
    for (size_t c = 0; c < cells; c++)
        a->weights[c] = 1;
}

static void end(struct ascent *a) {
    for (int32_t m = 0; m < a->given->model_count; m++)
        tt_request_charges_fini(&a->charges[m]);
    free(a->charges);
    free(a->weights);
    free(a->load);
    free(a->sorted);
    free(a->limit);
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
