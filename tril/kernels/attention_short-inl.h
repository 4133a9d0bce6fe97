// Heads of a few short rows, as models of some thousand parameters have them: at most kShort queries and
// keys, and rows so narrow that everything stays in registers. Nothing is packed or padded; the lanes hold
// the queries, and in the second half of backward the keys.

// clang-format off
#if defined(TRIL_KERNELS_ATTENTION_SHORT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_ATTENTION_SHORT_INL_H_
#undef TRIL_KERNELS_ATTENTION_SHORT_INL_H_
#else
#define TRIL_KERNELS_ATTENTION_SHORT_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

#include "tril/kernels/attention_pack-inl.h"
#include "tril/kernels/attention_softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::attention::HWY_NAMESPACE {

// Rows of one head of size D: element i of row t is at data[t * stride + i * step].
struct ShortRows {
  const float* data;
  int64_t stride, step;
  HWY_INLINE float operator()(int64_t t, int i) const { return data[t * stride + i * step]; }
};
// The same across, as vectors leave them and single elements are read again.
template <int D>
struct ShortAcross {
  HWY_ALIGN float at[D][kShort];
  ShortRows rows() const { return {at[0], 1, kShort}; }
};

HWY_INLINE ShortRows short_rows(ConstHeadView rows, int64_t batch, int64_t head) {
  return {rows.row(batch, 0, head), rows.time_stride, 1};
}
// Whose rows lie so near that 32 bits reach them all.
inline bool near_rows(int64_t time_stride) { return time_stride >= 0 && time_stride < (1 << 26); }

template <int D>
HWY_INLINE void store_short(const ShortAcross<D>& across, int64_t length, HeadView rows, int64_t batch,
                            int64_t head) {
  for (int64_t t = 0; t < length; ++t) {
    float* const row = rows.row(batch, t, head);
    for (int i = 0; i < D; ++i) row[i] = across.at[i][t];
  }
}

// D vectors of lanes from `t` on, in registers.
template <int D>
struct ShortVectors {
  Vector at[D];

  HWY_INLINE ShortVectors() {}  // not implicit, which would be compiled for the wrong instruction set

  HWY_INLINE void clear() {
#pragma GCC unroll 16
    for (int i = 0; i < D; ++i) at[i] = hn::Zero(Floats());
  }
  // Gathered: single stores, which a vector load would then wait for, cost more. Lanes behind the last row
  // repeat it, and nobody reads what becomes of them.
  HWY_INLINE void load(const ShortRows& rows, int64_t t, int64_t length, float factor) {
    const Integers d;
    const auto lane =
        hn::Min(hn::Iota(d, static_cast<int32_t>(t)), hn::Set(d, static_cast<int32_t>(length - 1)));
    const auto index = hn::Mul(lane, hn::Set(d, static_cast<int32_t>(rows.stride)));
#pragma GCC unroll 16
    for (int i = 0; i < D; ++i)
      at[i] = hn::Mul(hn::GatherIndex(Floats(), rows.data + i * rows.step, index), hn::Set(Floats(), factor));
  }
  HWY_INLINE void store(Vector factor, ShortAcross<D>& across, int64_t t) const {
#pragma GCC unroll 16
    for (int i = 0; i < D; ++i) hn::StoreU(hn::Mul(at[i], factor), Floats(), across.at[i] + t);
  }
  // sum_i at_i row_i, from the first to the last.
  HWY_INLINE Vector dot(const ShortRows& rows, int64_t t) const {
    Vector sum = hn::Zero(Floats());
#pragma GCC unroll 16
    for (int i = 0; i < D; ++i) sum = hn::MulAdd(at[i], hn::Set(Floats(), rows(t, i)), sum);
    return sum;
  }
  // at_i += weight row_i in the lanes that see: a hidden row may hold anything.
  HWY_INLINE void add(FloatMask see, Vector weight, const ShortRows& rows, int64_t t) {
#pragma GCC unroll 16
    for (int i = 0; i < D; ++i)
      at[i] = hn::IfThenElse(see, hn::MulAdd(weight, hn::Set(Floats(), rows(t, i)), at[i]), at[i]);
  }
};

// Lanes t, t + 1, ... that are at least `row`, or at most.
HWY_INLINE FloatMask lanes_from(int64_t t, int64_t row) {
  const Integers d;
  const auto lane = hn::Iota(d, static_cast<int32_t>(t));
  return hn::RebindMask(Floats(), hn::Lt(hn::Set(d, static_cast<int32_t>(row - 1)), lane));
}
HWY_INLINE FloatMask lanes_to(int64_t t, int64_t row) {
  const Integers d;
  const auto lane = hn::Iota(d, static_cast<int32_t>(t));
  return hn::RebindMask(Floats(), hn::Lt(lane, hn::Set(d, static_cast<int32_t>(row + 1))));
}

// Keys or values: floats where they lie, bfloat16 copied.
template <int D>
HWY_INLINE ShortRows stored_rows(const StoredRows& stored, int64_t batch, int64_t head, int64_t length,
                                 float (&copy)[kShort][D]) {
  if (const ConstHeadView* const rows = std::get_if<ConstHeadView>(&stored))
    return short_rows(*rows, batch, head);
  const auto& rows = std::get<HeadRows<const Bfloat16>>(stored);
  for (int64_t t = 0; t < length; ++t)
    for (int i = 0; i < D; ++i) copy[t][i] = to_float(rows.row(batch, t, head)[i]);
  return {copy[0], D, 1};
}

template <int D>
HWY_NOINLINE void forward_short(const ForwardCall& call, int64_t batch, int64_t head) {
  const Floats d;
  const int64_t length = call.shape.query_length;
  float key_copy[kShort][D], value_copy[kShort][D];
  const ShortRows keys = stored_rows<D>(call.key, batch, head, length, key_copy);
  const ShortRows values = stored_rows<D>(call.value, batch, head, length, value_copy);
  HWY_ALIGN float maximum[kShort], sum[kShort], scores[kShort][kLanes];
  ShortAcross<D> across;
  for (int64_t t = 0; t < length; t += kLanes) {
    const int64_t seen = std::min(length, t + kLanes);
    ShortVectors<D> query, out;
    query.load(short_rows(call.query, batch, head), t, length, call.scale);
    Vector m = hn::Set(d, kLowest), l = hn::Zero(d);
    for (int64_t j = 0; j < seen; ++j) {  // s = (scale * q) . k
      const Vector s = query.dot(keys, j);
      hn::Store(s, d, scores[j]);
      m = hn::Max(m, hn::IfThenElse(lanes_from(t, j), s, m));
    }
    out.clear();
    for (int64_t j = 0; j < seen; ++j) {  // p = exp(s - m);  o += p v;  l += p
      const FloatMask see = lanes_from(t, j);
      const Vector p = hn::IfThenElseZero(see, exp_of_nonpositive(d, hn::Sub(hn::Load(d, scores[j]), m)));
      l = hn::Add(l, p);
      out.add(see, p, values, j);
    }
    out.store(hn::Div(hn::Set(d, 1.0f), l), across, t);
    hn::StoreU(m, d, maximum + t);
    hn::StoreU(l, d, sum + t);
  }
  store_short(across, length, call.out, batch, head);
  const int64_t stats = (batch * call.shape.query_heads + head) * length;
  std::copy_n(maximum, length, call.running_max + stats);
  std::copy_n(sum, length, call.running_sum + stats);
}

template <int D>
HWY_NOINLINE void backward_short(const BackwardCall& call, int64_t batch, int64_t head) {
  const Floats d;
  const int64_t length = call.shape.query_length, stats = (batch * call.shape.query_heads + head) * length;
  const ShortRows keys = short_rows(call.key, batch, head), values = short_rows(call.value, batch, head);
  const Vector one = hn::Set(d, 1.0f);
  ShortAcross<D> queries, douts, across, dkeys;
  HWY_ALIGN float maximum[kShort], inverse_sum[kShort], delta_of[kShort];
  // Queries in the lanes: ds_ij = p_ij (dp_ij - delta_i),  dq_i = scale sum_j ds_ij k_j
  for (int64_t t = 0; t < length; t += kLanes) {
    const int64_t count = std::min(length - t, kLanes);
    ShortVectors<D> query, dout, sums;
    query.load(short_rows(call.query, batch, head), t, length, call.scale);
    query.store(one, queries, t);
    dout.load(short_rows(call.dout, batch, head), t, length, 1.0f);
    dout.store(one, douts, t);
    sums.load(short_rows(call.out, batch, head), t, length, 1.0f);
    // delta = do . o in the order of dp: a row that saw one key has dp == delta and ds == 0, exactly.
    Vector delta = hn::Zero(d);
#pragma GCC unroll 16
    for (int i = 0; i < D; ++i) delta = hn::MulAdd(dout.at[i], sums.at[i], delta);
    const bool all = count == kLanes;
    const Vector m =
        all ? load(call.running_max + stats + t) : load_first(call.running_max + stats + t, count);
    const Vector l =
        all ? load(call.running_sum + stats + t) : load_first(call.running_sum + stats + t, count);
    const Vector inverse = hn::Div(one, l);
    hn::StoreU(m, d, maximum + t);
    hn::StoreU(inverse, d, inverse_sum + t);
    hn::StoreU(delta, d, delta_of + t);
    sums.clear();
    for (int64_t j = 0; j < std::min(length, t + kLanes); ++j) {
      const Vector p = hn::Mul(exp_of_nonpositive(d, hn::Sub(query.dot(keys, j), m)), inverse);
      sums.add(lanes_from(t, j), hn::Mul(p, hn::Sub(dout.dot(values, j), delta)), keys, j);
    }
    sums.store(hn::Set(d, call.scale), across, t);
  }
  store_short(across, length, call.dquery, batch, head);
  // Keys in the lanes: dk_j = sum_i ds_ij (scale q_i),  dv_j = sum_i p_ij do_i; the same products again.
  for (int64_t t = 0; t < length; t += kLanes) {
    ShortVectors<D> key, value, dkey, dvalue;
    key.load(keys, t, length, 1.0f);
    value.load(values, t, length, 1.0f);
    dkey.clear();
    dvalue.clear();
    for (int64_t i = t; i < length; ++i) {
      const FloatMask see = lanes_to(t, i);
      const Vector m = hn::Set(d, maximum[i]), inverse = hn::Set(d, inverse_sum[i]);
      const Vector p = hn::Mul(exp_of_nonpositive(d, hn::Sub(key.dot(queries.rows(), i), m)), inverse);
      const Vector ds = hn::Mul(p, hn::Sub(value.dot(douts.rows(), i), hn::Set(d, delta_of[i])));
      dkey.add(see, ds, queries.rows(), i);
      dvalue.add(see, p, douts.rows(), i);
    }
    dkey.store(one, dkeys, t);
    dvalue.store(one, across, t);
  }
  store_short(dkeys, length, call.dkey, batch, head);
  store_short(across, length, call.dvalue, batch, head);
}

inline void forward_short(const ForwardCall& call, int64_t batch, int64_t head) {
  if (call.shape.head_size == 4) return forward_short<4>(call, batch, head);
  if (call.shape.head_size == 8) return forward_short<8>(call, batch, head);
  return forward_short<16>(call, batch, head);
}

inline void backward_short(const BackwardCall& call, int64_t batch, int64_t head) {
  if (call.shape.head_size == 4) return backward_short<4>(call, batch, head);
  if (call.shape.head_size == 8) return backward_short<8>(call, batch, head);
  return backward_short<16>(call, batch, head);
}

}  // namespace tril::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIL_KERNELS_ATTENTION_SHORT_INL_H_
