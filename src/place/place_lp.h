/* A partition problem as a mixed integer program, eq. 3 to 10, in the LP format that HiGHS, CPLEX,
 * Gurobi, CBC and GLPK read. Nothing here solves it.
 *
 * Rates and memory are divided by their means, so the objective is that of tt_place_evaluate().
 * Variables: x_I_J is 1 if model I lies in sub-cluster J; dr and ds are the largest deviations; m_J
 * is the largest dynamic memory in J. Implemented in place_lp.c. */
#ifndef TT_PLACE_PLACE_LP_H
#define TT_PLACE_PLACE_LP_H

#include "base/text.h"
#include "place/place_problem.h"

/* Appends the program. Check out_text->failed for lack of memory. */
void tt_place_lp_put(const struct tt_place_problem *problem, struct tt_text *out_text);

#endif
