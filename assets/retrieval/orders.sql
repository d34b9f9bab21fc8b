-- Orders of a bookshop: tables, the view for the packing room, and the clean-up job.

CREATE TABLE customers (
    id INTEGER PRIMARY KEY,
    email TEXT NOT NULL UNIQUE,
    -- ISO 3166 code; decides which VAT rate applies
    country TEXT NOT NULL DEFAULT 'IE',
    newsletter INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE books (
    isbn TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    price_cents INTEGER NOT NULL CHECK (price_cents > 0),
    stock INTEGER NOT NULL DEFAULT 0,
    -- set by the buyer; below this the title is reordered
    reorder_level INTEGER NOT NULL DEFAULT 3
);

CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    customer_id INTEGER NOT NULL REFERENCES customers(id),
    placed_at TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('open', 'packed', 'sent', 'returned')),
    voucher TEXT
);

CREATE TABLE order_lines (
    order_id INTEGER NOT NULL REFERENCES orders(id) ON DELETE CASCADE,
    isbn TEXT NOT NULL REFERENCES books(isbn),
    quantity INTEGER NOT NULL CHECK (quantity BETWEEN 1 AND 50),
    PRIMARY KEY (order_id, isbn)
);

-- What the packing room sees: the oldest order first.
CREATE VIEW packing_list AS
SELECT orders.id, customers.email, books.title, order_lines.quantity
FROM orders
JOIN customers ON customers.id = orders.customer_id
JOIN order_lines ON order_lines.order_id = orders.id
JOIN books ON books.isbn = order_lines.isbn
WHERE orders.status = 'open'
ORDER BY orders.placed_at;

-- Packing takes the books out of the stock.
CREATE TRIGGER take_stock AFTER UPDATE OF status ON orders WHEN new.status = 'packed' BEGIN
    UPDATE books SET stock = stock - (
        SELECT quantity FROM order_lines WHERE order_id = new.id AND isbn = books.isbn
    ) WHERE isbn IN (SELECT isbn FROM order_lines WHERE order_id = new.id);
END;

-- The job of the first night of each month: open orders older than ninety days are deleted.
DELETE FROM orders WHERE status = 'open' AND placed_at < date('now', '-90 days');
