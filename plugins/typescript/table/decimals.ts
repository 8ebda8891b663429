/** A finite number with two decimals as C's `%.2f` writes it: halves go to the even neighbour, and nothing is in exponents. */
export function twoDecimals(value: number): string {
  const sign = value < 0 || Object.is(value, -0) ? "-" : "";
  const size = Math.abs(value);
  // From here on `toFixed` writes exponents, and no number has a fraction.
  if (size >= 1e21) return `${sign}${BigInt(size)}.00`;
  // Exactly between two neighbours lie odd numbers of eighths alone; `toFixed` rounds them up.
  if ((size * 8) % 2 === 1) {
    const below = Math.floor(size * 100);
    return `${sign}${((below + (below % 2)) / 100).toFixed(2)}`;
  }
  return `${sign}${size.toFixed(2)}`;
}
