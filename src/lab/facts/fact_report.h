/* The tables of `tutti reproduce`: what the paper publishes beside our value, and what our own runs
 * must give again. Text, Markdown and JSON show the same rows and the same counts.
 *
 * A fact that is evidence is a row of the first table, with the class of our value. A fact with
 * `holds` is a row of the second. In real time there is a third: values that are only measured.
 * Each row shows the command that runs it again. Nothing here runs anything, or decides an exit
 * code. Implemented in fact_report.c. */
#ifndef TT_LAB_FACTS_FACT_REPORT_H
#define TT_LAB_FACTS_FACT_REPORT_H

#include "base/text.h"
#include "lab/facts/facts.h"

#include <jansson.h>

struct tt_fact_row {
    const Tutti__Fact *fact;
    double ours;         /* NAN: not run */
    bool left_out;       /* not run on purpose: evidence that is not attempted */
    struct tt_text note; /* owned by the caller */
};

struct tt_fact_table {
    const char *system; /* the argument of `tutti reproduce` */
    const char *title;  /* of the facts file */
    const char *world;  /* of the facts file; "": simulated, or as each fact says */
    bool quick;
    const struct tt_fact_row *rows;
    size_t count;
};

struct tt_fact_counts {
    int32_t published, classes[TT_FACT_CLASSES];
    int32_t regression, hold, fail;
    int32_t measured; /* rows in real time without a published value */
    int32_t not_run;  /* chosen, but the run was interrupted */
};

/* Adds the rows of the table. A published number that is not attempted, and a row that was not run,
 * count as not attempted. */
void tt_fact_counts_add(struct tt_fact_counts *self, const struct tt_fact_table *table);
/* The two closing lines, each with its end of line; before them a line about measured rows, if
 * there are any. */
void tt_fact_counts_print(const struct tt_fact_counts *self, struct tt_text *out);
/* A new reference: {"published": {...}, "regression": {...}}. */
json_t *tt_fact_counts_json(const struct tt_fact_counts *self);

/* Both tables, without the closing lines. */
void tt_fact_report_text(const struct tt_fact_table *table, struct tt_text *out);
void tt_fact_report_markdown(const struct tt_fact_table *table, struct tt_text *out);
/* A new reference. */
json_t *tt_fact_report_json(const struct tt_fact_table *table);

#endif
