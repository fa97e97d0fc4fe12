#include "place/place_counts.h"

#include <math.h>
#include <stdlib.h>

enum {
    MAX_MOVES = 32,
    MAX_MODELS = 4096,
    MAX_SIZE = 65536, /* models times sub-clusters */
    ROUNDS = 4,
    PARTS = 4, /* a model given counts w / PARTS and one taken the rest, for each w */
    SLOPES = 12,
    DIRECTIONS = 4 * SLOPES + 4
};

/* Of memory beside rate; no others are needed, and all are exact. */
static const double slopes[SLOPES] = {0.125, 0.25, 0.375, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8};
static const double rounding = 1e-9;

struct item {
    double rate, memory; /* relative to the means */
    bool may_leave;
};

/* An item in one direction. */
struct entry {
    double value;
    int32_t item;
};

/* The sums of the 0 .. move_count largest values that are above 0. */
struct top {
    double sums[MAX_MOVES + 1];
};

struct needs {
    int32_t first, end;             /* its items */
    double rate, memory;            /* deviations now */
    int32_t gives, takes;           /* the least that may suffice */
    int32_t most_gives, most_takes; /* that the moves leave it */
    struct top largest[DIRECTIONS]; /* of its models that may leave */
};

struct tt_place_counts {
    int32_t model_count, cluster_count, move_count;
    struct item *items;              /* by their sub-cluster */
    struct entry *sorted;            /* [DIRECTIONS][model_count]: in each sub-cluster, falling */
    struct needs *needs;             /* [cluster_count] */
    struct top smallest[DIRECTIONS]; /* of all that may leave: negative values */
    double direction[DIRECTIONS][2];
    double band[DIRECTIONS]; /* what the deviations allow in each direction */
};

static void set_directions(struct tt_place_counts *self) {
    int32_t k = 0;
    for (int32_t sign = -1; sign <= 1; sign += 2) {
        self->direction[k++][0] = sign;
        self->direction[k++][1] = sign; /* and 0 in the other dimension */
        for (int32_t s = 0; s < SLOPES; s++) {
            self->direction[k][0] = sign;
            self->direction[k++][1] = slopes[s];
            self->direction[k][0] = sign;
            self->direction[k++][1] = -slopes[s];
        }
    }
    tt_assert(k == DIRECTIONS);
}

static double along(const struct tt_place_counts *self, int32_t direction, double rate,
                    double memory) {
    return self->direction[direction][0] * rate + self->direction[direction][1] * memory;
}

static const struct entry *sorted_in(const struct tt_place_counts *self, int32_t direction) {
    return self->sorted + (size_t)direction * (size_t)self->model_count;
}

/* Keeps the `count` largest values in values[count], falling; 0 stands for none. False: it is none
 * of them. */
static bool insert(double *values, int32_t count, double value) {
    if (count == 0 || value <= values[count - 1])
        return false;
    int32_t k = count - 1;
    for (; k > 0 && values[k - 1] < value; k--)
        values[k] = values[k - 1];
    values[k] = value;
    return true;
}

/* What a sub-cluster can give in a direction. */
static void find_largest(const struct tt_place_counts *self, int32_t direction,
                         struct needs *needs) {
    const struct entry *sorted = sorted_in(self, direction);
    double *sums = needs->largest[direction].sums;
    int32_t count = 0;
    for (int32_t k = needs->first; k < needs->end && count < self->move_count; k++) {
        if (sorted[k].value <= 0)
            break;
        if (!self->items[sorted[k].item].may_leave)
            continue;
        sums[count + 1] = sums[count] + sorted[k].value;
        count++;
    }
    for (; count < self->move_count; count++)
        sums[count + 1] = sums[count];
}

/* What any sub-cluster can take in a direction: at most `spare` models of those that need not give
 * any. */
static void find_smallest(struct tt_place_counts *self, int32_t direction, int32_t spare) {
    const struct entry *sorted = sorted_in(self, direction);
    double given[MAX_MOVES] = {0}, spared[MAX_MOVES] = {0};
    for (int32_t j = 0; j < self->cluster_count; j++) {
        const struct needs *needs = &self->needs[j];
        bool must_give = needs->gives > 0;
        for (int32_t k = needs->end - 1; k >= needs->first; k--)
            if (self->items[sorted[k].item].may_leave &&
                !insert(must_give ? given : spared, must_give ? self->move_count : spare,
                        -sorted[k].value))
                break;
    }
    for (int32_t k = 0; k < spare; k++)
        insert(given, self->move_count, spared[k]);
    double *sums = self->smallest[direction].sums;
    for (int32_t k = 0; k < self->move_count; k++)
        sums[k + 1] = sums[k] + given[k];
}

/* What g models given and t taken leave above the band in a direction. */
static double left_above(const struct tt_place_counts *self, const struct needs *needs,
                         int32_t direction, int32_t g, int32_t t) {
    return along(self, direction, needs->rate, needs->memory) - needs->largest[direction].sums[g] -
           self->smallest[direction].sums[t] - self->band[direction] - rounding;
}

static bool may_suffice(const struct tt_place_counts *self, const struct needs *needs, int32_t g,
                        int32_t t) {
    for (int32_t d = 0; d < DIRECTIONS; d++)
        if (left_above(self, needs, d, g, t) > 0)
            return false;
    return true;
}

/* The least counts of a sub-cluster, and the least weighted sums of both. False: none suffices. */
static bool count_one(const struct tt_place_counts *self, struct needs *needs,
                      int32_t sums[PARTS + 1]) {
    int32_t t = needs->most_takes, least[PARTS + 1], gives = -1;
    if (!may_suffice(self, needs, needs->most_gives, t))
        return false;
    for (int32_t w = 0; w <= PARTS; w++)
        least[w] = INT32_MAX;
    for (int32_t g = 0; g <= needs->most_gives; g++) {
        if (!may_suffice(self, needs, g, t))
            continue;
        gives = gives < 0 ? g : gives;
        while (t > 0 && may_suffice(self, needs, g, t - 1))
            t--;
        for (int32_t w = 0; w <= PARTS; w++)
            if (least[w] > w * g + (PARTS - w) * t)
                least[w] = w * g + (PARTS - w) * t;
    }
    for (int32_t w = 0; w <= PARTS; w++)
        sums[w] += least[w];
    needs->gives = gives;
    needs->takes = t;
    return true;
}

static int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }

/* Counts for all, and leaves to each what the others need not have. False: too many moves. */
static bool count_all(struct tt_place_counts *self, int32_t *out_spare) {
    int32_t sums[PARTS + 1] = {0}, gives = 0, takes = 0;
    for (int32_t j = 0; j < self->cluster_count; j++) {
        if (!count_one(self, &self->needs[j], sums))
            return false;
        gives += self->needs[j].gives;
        takes += self->needs[j].takes;
    }
    for (int32_t w = 0; w <= PARTS; w++)
        if (sums[w] > PARTS * self->move_count)
            return false;
    for (int32_t j = 0; j < self->cluster_count; j++) {
        struct needs *needs = &self->needs[j];
        needs->most_gives = smaller(needs->most_gives, needs->gives + self->move_count - gives);
        needs->most_takes = smaller(needs->most_takes, needs->takes + self->move_count - takes);
    }
    *out_spare = self->move_count - gives;
    return true;
}

static bool keep(struct tt_place_counts *self, int32_t item) {
    bool changes = self->items[item].may_leave;
    self->items[item].may_leave = false;
    return changes;
}

/* Keeps the models of a sub-cluster that cannot be among those it gives. True: one more stays. */
static bool keep_at_home(struct tt_place_counts *self, const struct needs *needs) {
    bool changed = false;
    for (int32_t i = needs->first; needs->most_gives == 0 && i < needs->end; i++)
        changed |= keep(self, i);
    for (int32_t d = 0; needs->most_gives > 0 && d < DIRECTIONS; d++) {
        const struct entry *sorted = sorted_in(self, d);
        double left = left_above(self, needs, d, needs->most_gives - 1, needs->most_takes);
        for (int32_t k = needs->end - 1; k >= needs->first && sorted[k].value < left; k--)
            changed |= keep(self, sorted[k].item);
    }
    return changed;
}

static bool keep_all_at_home(struct tt_place_counts *self) {
    bool changed = false;
    for (int32_t j = 0; j < self->cluster_count; j++)
        changed |= keep_at_home(self, &self->needs[j]);
    return changed;
}

/* Every model may leave, and every sub-cluster may have to give. */
static void reset(struct tt_place_counts *self) {
    for (int32_t i = 0; i < self->model_count; i++)
        self->items[i].may_leave = true;
    for (int32_t j = 0; j < self->cluster_count; j++) {
        self->needs[j].gives = 1;
        self->needs[j].most_gives = self->needs[j].most_takes = self->move_count;
    }
}

bool tt_place_counts_may_hold(struct tt_place_counts *self, double rate_deviation,
                              double memory_deviation) {
    for (int32_t d = 0; d < DIRECTIONS; d++)
        self->band[d] = fabs(self->direction[d][0]) * rate_deviation +
                        fabs(self->direction[d][1]) * memory_deviation;
    reset(self);
    for (int32_t round = 0, spare = 0; round < ROUNDS; round++) {
        for (int32_t d = 0; d < DIRECTIONS; d++) {
            for (int32_t j = 0; j < self->cluster_count; j++)
                find_largest(self, d, &self->needs[j]);
            find_smallest(self, d, spare);
        }
        if (!count_all(self, &spare))
            return false;
        if (!keep_all_at_home(self) && round > 0) /* after the first, `spare` is new */
            break;
    }
    return true;
}

static int by_cost(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* The largest number of models that may move; -1 without memory, MAX_MOVES + 1: more. */
static int32_t count_moves(const struct tt_place_problem *problem) {
    int64_t *costs = malloc((size_t)problem->model_count * sizeof(*costs)), sum = 0;
    if (!costs)
        return -1;
    for (int32_t i = 0; i < problem->model_count; i++)
        costs[i] = 2 * problem->models[i].cost;
    qsort(costs, (size_t)problem->model_count, sizeof(*costs), by_cost);
    int32_t count = 0;
    while (count <= MAX_MOVES && count < problem->model_count &&
           (sum += costs[count]) <= problem->max_cost)
        count++;
    free(costs);
    return count;
}

static bool says_nothing(const struct tt_place_problem *problem) {
    if (problem->max_cost < 0 || problem->model_count > MAX_MODELS ||
        problem->cluster_count > problem->model_count || /* one stays empty: nothing to count */
        (int64_t)problem->model_count * problem->cluster_count > MAX_SIZE)
        return true;
    for (int32_t i = 0; i < problem->model_count; i++)
        if (problem->models[i].now == TT_PLACE_NOWHERE)
            return true;
    return false;
}

/* Items by their sub-cluster, and the deviations. */
static void fill(struct tt_place_counts *self, const struct tt_place_problem *problem) {
    double rate = 0, memory = 0;
    int32_t count = 0;
    for (int32_t i = 0; i < problem->model_count; i++) {
        rate += (double)problem->models[i].rate / problem->cluster_count;
        memory += (double)problem->models[i].static_bytes / problem->cluster_count;
    }
    tt_assert(rate > 0);
    tt_assert(memory > 0);
    for (int32_t j = 0; j < problem->cluster_count; j++) {
        struct needs *needs = &self->needs[j];
        needs->rate = needs->memory = -1;
        needs->first = count;
        for (int32_t i = 0; i < problem->model_count; i++) {
            const struct tt_place_model *model = &problem->models[i];
            if (model->now != j)
                continue;
            struct item *item = &self->items[count++];
            item->rate = (double)model->rate / rate;
            item->memory = (double)model->static_bytes / memory;
            needs->rate += item->rate;
            needs->memory += item->memory;
        }
        needs->end = count;
    }
}

static int largest_first(const void *left, const void *right) {
    const struct entry *a = left, *b = right;
    return (a->value < b->value) - (a->value > b->value);
}

static void sort(struct tt_place_counts *self) {
    for (int32_t d = 0; d < DIRECTIONS; d++) {
        struct entry *sorted = self->sorted + (size_t)d * (size_t)self->model_count;
        for (int32_t i = 0; i < self->model_count; i++)
            sorted[i] =
                (struct entry){along(self, d, self->items[i].rate, self->items[i].memory), i};
        for (int32_t j = 0; j < self->cluster_count; j++) {
            const struct needs *needs = &self->needs[j];
            qsort(sorted + needs->first, (size_t)(needs->end - needs->first), sizeof(*sorted),
                  largest_first);
        }
    }
}

enum tt_err tt_place_counts_new(const struct tt_place_problem *problem,
                                struct tt_place_counts **out_counts) {
    *out_counts = NULL;
    if (says_nothing(problem))
        return TT_OK;
    int32_t moves = count_moves(problem);
    if (moves > MAX_MOVES)
        return TT_OK;
    struct tt_place_counts *self = moves < 0 ? NULL : calloc(1, sizeof(*self));
    if (!self)
        return TT_ERR_NO_MEMORY;
    size_t models = (size_t)problem->model_count;
    self->model_count = problem->model_count;
    self->cluster_count = problem->cluster_count;
    self->move_count = moves;
    self->items = calloc(models, sizeof(*self->items));
    self->sorted = calloc(DIRECTIONS * models, sizeof(*self->sorted));
    self->needs = calloc((size_t)problem->cluster_count, sizeof(*self->needs));
    if (!self->items || !self->sorted || !self->needs) {
        tt_place_counts_free(self);
        return TT_ERR_NO_MEMORY;
    }
    set_directions(self);
    fill(self, problem);
    sort(self);
    *out_counts = self;
    return TT_OK;
}

void tt_place_counts_free(struct tt_place_counts *take_self) {
    if (!take_self)
        return;
    free(take_self->items);
    free(take_self->sorted);
    free(take_self->needs);
    free(take_self);
}
