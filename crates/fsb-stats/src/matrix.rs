//! Small symmetric matrices, as normal equations are.

/// A symmetric matrix in full.
#[derive(Debug, Clone)]
pub(crate) struct Matrix {
    size: usize,
    cells: Vec<f64>,
}

impl Matrix {
    pub(crate) fn zero(size: usize) -> Matrix {
        Matrix { size, cells: vec![0.0; size * size] }
    }

    pub(crate) fn add(&mut self, other: &Matrix) {
        self.cells.iter_mut().zip(&other.cells).for_each(|(cell, more)| *cell += more);
    }

    pub(crate) fn add_square(&mut self, x: &[f64]) {
        for (row, a) in self.cells.chunks_exact_mut(self.size).zip(x) {
            row.iter_mut().zip(x).for_each(|(cell, b)| *cell += a * b);
        }
    }

    pub(crate) fn times(&self, x: &[f64]) -> Vec<f64> {
        self.cells.chunks_exact(self.size).map(|row| dot(row, x)).collect()
    }

    /// xᵀ·M·x.
    pub(crate) fn quadratic(&self, x: &[f64]) -> f64 {
        dot(&self.times(x), x)
    }

    /// The trace of the product of two symmetric matrices.
    pub(crate) fn trace_of_product(&self, other: &Matrix) -> f64 {
        dot(&self.cells, &other.cells)
    }

    /// A generalised inverse by sweeping (Beaton 1964): what depends on rows swept before stays out, as zeros.
    pub(crate) fn inverse(&self) -> Matrix {
        let n = self.size;
        let mut a = self.cells.clone();
        let mut swept = vec![false; n];
        for k in 0..n {
            let pivot = a[k * n + k];
            if pivot <= 1e-9 * self.cells[k * n + k].max(f64::MIN_POSITIVE) {
                continue;
            }
            swept[k] = true;
            for i in (0..n).filter(|i| *i != k) {
                let factor = a[i * n + k] / pivot;
                for j in (0..n).filter(|j| *j != k) {
                    a[i * n + j] -= factor * a[k * n + j];
                }
            }
            for i in (0..n).filter(|i| *i != k) {
                a[i * n + k] /= pivot;
                a[k * n + i] /= -pivot;
            }
            a[k * n + k] = 1.0 / pivot;
        }
        let cell = |place: usize| if swept[place / n] && swept[place % n] { a[place] } else { 0.0 };
        Matrix { size: n, cells: (0..n * n).map(cell).collect() }
    }
}

/// The inner product.
pub(crate) fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linearly_dependent_columns_are_left_out() {
        // The third column is the sum of the first two.
        let mut matrix = Matrix::zero(3);
        for row in [[1.0, 0.0, 1.0], [0.5, 2.0, 2.5], [1.0, 1.0, 2.0]] {
            matrix.add_square(&row);
        }
        let inverse = matrix.inverse();
        for unit in 0..3 {
            let mut x = vec![0.0; 3];
            x[unit] = 1.0;
            let (once, back) = (matrix.times(&x), matrix.times(&inverse.times(&matrix.times(&x))));
            assert!(once.iter().zip(&back).all(|(a, b)| (a - b).abs() < 1e-12), "{once:?} {back:?}");
        }
    }
}
