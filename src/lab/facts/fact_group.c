#include "lab/facts/fact_group.h"

#include "lab/scenario/allocate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OTHER_FILE "experiment="

int32_t tt_fact_group_overs(const Tutti__Fact *fact) {
    return fact->n_over > 0 ? (int32_t)fact->n_over : 1;
}

int32_t tt_fact_group_alternatives(const Tutti__FactRun *run) {
    return run->n_any_of > 0 ? (int32_t)run->n_any_of : 1;
}

void tt_fact_group_init(struct tt_fact_group *self, const Tutti__Fact *fact,
                        const Tutti__FactRun *run) {
    self->overs = tt_fact_group_overs(fact);
    self->alternatives = tt_fact_group_alternatives(run);
    size_t count = (size_t)self->overs * (size_t)self->alternatives;
    self->pieces = tt_allocate(count, sizeof(*self->pieces));
}

void tt_fact_group_fini(struct tt_fact_group *self) {
    free(self->pieces);
    *self = (struct tt_fact_group){0};
}

void tt_fact_group_run(const Tutti__Fact *fact, const Tutti__FactRun *run, int32_t index,
                       Tutti__FactRun *out_run) {
    char **set = tt_allocate(run->n_set + 2, sizeof(char *));
    *out_run = *run;
    out_run->set = set;
    for (size_t i = 0; i < run->n_set; i++)
        set[i] = run->set[i];
    int32_t alternatives = tt_fact_group_alternatives(run);
    if (run->n_any_of > 0)
        set[out_run->n_set++] = run->any_of[index % alternatives];
    if (fact->n_over == 0)
        return;
    char *over = fact->over[index / alternatives];
    if (strncmp(over, OTHER_FILE, strlen(OTHER_FILE)) == 0)
        out_run->experiment = over + strlen(OTHER_FILE);
    else
        set[out_run->n_set++] = over;
}

static bool less_is_better(Tutti__FactMeasure measure) {
    return measure == TUTTI__FACT_MEASURE__LATENCY_MEAN_MS ||
           measure == TUTTI__FACT_MEASURE__LATENCY_P99_MS ||
           measure == TUTTI__FACT_MEASURE__LATENCY_P90_MS ||
           measure == TUTTI__FACT_MEASURE__BAD_RATE;
}

double tt_fact_group_choose(const Tutti__FactRun *run, const double *values, int32_t count) {
    double least = values[0], most = values[0], sum = 0;
    int32_t above = 0;
    for (int32_t i = 0; i < count; i++) {
        if (isnan(values[i]))
            return NAN;
        sum += values[i];
        least = fmin(least, values[i]);
        most = fmax(most, values[i]);
        above += values[i] > run->above;
    }
    bool wants_least = less_is_better(run->measure) == (run->choose != TUTTI__FACT_CHOICE__WORST);
    switch (run->choose) {
    case TUTTI__FACT_CHOICE__MEAN: return sum / count;
    case TUTTI__FACT_CHOICE__SHARE_ABOVE: return (double)above / count;
    case TUTTI__FACT_CHOICE__BEST:
    case TUTTI__FACT_CHOICE__WORST:
    default: return wants_least ? least : most;
    }
}

double tt_fact_group_reduce(const Tutti__Fact *fact, const double *values, int32_t count) {
    int32_t least = 0, most = 0;
    double sum = 0;
    for (int32_t i = 0; i < count; i++) {
        if (isnan(values[i]))
            return NAN;
        sum += values[i];
        least = values[i] < values[least] ? i : least;
        most = values[i] > values[most] ? i : most;
    }
    switch (fact->reduce) {
    case TUTTI__FACT_REDUCE__LEAST_OF_ALL: return values[least];
    case TUTTI__FACT_REDUCE__MOST_OF_ALL: return values[most];
    case TUTTI__FACT_REDUCE__DIFFERENCE: return values[0] - values[1];
    case TUTTI__FACT_REDUCE__WHERE_LEAST: return fact->at[least];
    case TUTTI__FACT_REDUCE__WHERE_MOST: return fact->at[most];
    case TUTTI__FACT_REDUCE__MEAN_OF_ALL:
    default: return sum / count;
    }
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void tt_fact_group_sort(double *values, int32_t count) {
    qsort(values, (size_t)count, sizeof(*values), compare_doubles);
}

double tt_fact_group_seeds(double *values, int32_t count, struct tt_text *out_note) {
    double sum = 0;
    tt_fact_group_sort(values, count);
    for (int32_t s = 0; s < count; s++)
        sum += values[s];
    if (out_note && !isnan(sum))
        tt_text_printf(out_note, "%d seeds, middle half: %.4g .. %.4g", count, values[count / 4],
                       values[count - 1 - count / 4]);
    return sum / count;
}
